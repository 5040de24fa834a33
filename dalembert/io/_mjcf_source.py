"""edge · files: MJCF as it goes to MuJoCo's compiler.

The compiler gets new XML, written from the elements that were checked here: includes are resolved, only parts of a
rigid machine remain, and every file is passed as bytes from the model's folder. So it never opens a file itself, and
what has no counterpart here is named before anything is compiled.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any
from xml.sax.saxutils import quoteattr

from dalembert._results import Complaint, DalembertError, FileError, did_you_mean
from dalembert.io._disk import beside, read_bytes, read_text
from dalembert.io._xml import Complaints, Element, read_xml

KEPT = ("compiler", "option", "default", "asset", "worldbody", "deformable", "equality", "keyframe")
UNUSED = ("contact", "tendon", "actuator", "sensor")
"""Sections that act on bodies and joints in ways that are not supported: compiled, named, and left out."""
SETTINGS = {
    "size": "", "visual": "global quality headlight map scale rgba", "statistic": "", "custom": "numeric text tuple",
}  # fmt: skip
"""Sections that do not describe the machine, with their permitted content: named, and not even compiled."""
FOREIGN = ("extension", "plugin", "flexcomp", "composite", "attach", "model", "flex")
UNSEEN = ("camera", "light")
PAINT = ("texture", "layer", "skin", "hfield")  # not even compiled: it would open files
COUNTS = ("dim", "nsample", "actdim", "maxhullvert")  # what makes MuJoCo's memory grow
MESHES = (".stl", ".obj", ".msh")
LARGEST_MESH, MOST_FILES, MOST_COPIES = 50_000_000, 500, 2000
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
_STUCK: list[bool] = []  # whether the compiler failed with an unknown exception


def mujoco_module() -> Any:
    """MuJoCo's module, whose names are made while it loads."""
    import mujoco

    return mujoco


class Source:
    """The elements of a file and of those it includes, checked and cleaned; `compile` passes them to MuJoCo."""

    def __init__(self, root: Element, complaints: Complaints, strict: bool):
        self.root, self.complaints, self.folder = root, complaints, root.path.parent
        self.strict = strict
        self.unread: dict[str, Complaint] = {}  # of each mesh that cannot be read, why
        self.read: set[str] = {root.path.name}
        self.files: dict[str, bytes] = {}
        self.meshes: dict[str, str] = {}  # of each mesh its file
        self.left_out: defaultdict[str, list[str]] = defaultdict(list)
        self.warnings: list[str] = []
        self.lines: list[Element] = []  # of each line of the text that is compiled
        self._include(root, 0)
        for section in root.children:
            known = (*KEPT, *UNUSED, *SETTINGS, *FOREIGN)
            if section.tag not in known:
                self._wrong(section, f"<{section.tag}> is unknown.{did_you_mean(section.tag, known)}")
        self._name_sections()
        root.children = [s for s in root.children if s.tag not in SETTINGS]
        self.settings = self._compiler()
        self._clean(root, 1)
        self._leave_out_unread()

    def _wrong(self, element: Element | None, text: str) -> None:
        self.complaints.add(element, text)

    # ---- what may be compiled --------------------------------------------------------------------------------

    def _include(self, element: Element, depth: int) -> None:
        """Put the elements of included files in their places."""
        children: list[Element] = []
        for child in element.children:
            if child.tag != "include":
                self._include(child, depth)
                children.append(child)
                continue
            name = child.attributes.get("file", "")
            try:
                file, there = beside(self.folder, name)
                if not there:
                    raise DalembertError(f"'{name[:100]}': there is no such file.")
                if file in self.read or depth > 10 or len(self.read) > MOST_FILES:
                    raise DalembertError(f"'{name[:100]}' is included already.")
                self.read.add(file)
                inner = read_xml(read_text(self.folder / file, follow=False), self.folder / file)
            except FileError as error:
                self.complaints.found += [c._replace(line=0, text=f"{name[:60]}, line {c.line}: {c.text}")
                                          for c in error.complaints]  # fmt: skip
            except DalembertError as error:
                self._wrong(child, f"<include>: {error}")
            else:
                if inner.tag not in ("mujoco", "mujocoinclude"):
                    self._wrong(child, f"<include>: '{name[:100]}' begins with <{inner.tag[:40]}>, not with <mujoco>.")
                self._include(inner, depth + 1)
                children += inner.children
        element.children = children

    def _name_sections(self) -> None:
        for section in self.root.children:
            if section.tag not in (*UNUSED, *SETTINGS):
                continue
            for child in section.children:
                self.left_out[f"<{section.tag}> {child.tag}"].append(child.attributes.get("name", ""))
                known = SETTINGS.get(section.tag, child.tag).split()
                if child.tag not in known:
                    hint = did_you_mean(child.tag, known)
                    self._wrong(child, f"<{child.tag}> in <{section.tag}> is unknown.{hint}")
            if not section.children and section.attributes:
                self.left_out[f"<{section.tag}>"].append("")
            if section.tag in SETTINGS:
                self._guard_files(section)
        for equality in self.root.all("equality"):
            for child in equality.children:
                if child.tag not in ("connect", "weld", "joint"):
                    self._wrong(
                        child,
                        f"<equality>: a constraint on <{child.tag}> is not known here; only connect, weld, joint.",
                    )

    def _guard_files(self, section: Element) -> None:
        """Files that will not be opened are checked as strictly as the others."""
        for element in section.walk():
            for key, value in element.attributes.items():
                if key.startswith("file"):
                    self._beside(element, value)

    def _compiler(self) -> dict[str, str]:
        """The folders of assets; those settings are not passed on."""
        found: dict[str, str] = {}
        for element in self.root.all("compiler"):
            for key in ("assetdir", "meshdir", "texturedir", "strippath"):
                if key in element.attributes:
                    found[key] = element.attributes.pop(key)
        return found

    def _clean(self, element: Element, copies: int) -> None:
        """Without textures; meshes as bytes; a limited number of copies."""
        for child in element.children:
            if child.tag in FOREIGN:
                self._wrong(
                    child, f"<{child.tag}> is not known here: bodies are rigid, and nothing is computed by plugins."
                )
            if child.tag in (*UNSEEN, *PAINT) or _is_field(child):
                self.left_out[f"<{child.tag}>"].append(child.attributes.get("name", ""))
                self._guard_files(child)
        element.children = [c for c in element.children if c.tag not in (*PAINT, *FOREIGN) and not _is_field(c)]
        for child in element.children:
            number = copies
            if child.tag == "replicate":
                count = child.attributes.get("count", "").strip()
                number *= int(count) if re.fullmatch(r"[0-9]{1,6}", count) else MOST_COPIES + 1
                if number > MOST_COPIES:
                    self._wrong(
                        child, f"<replicate>: count must be a whole number, and make at most {MOST_COPIES} copies."
                    )
                    continue
            for key in ("user", "texture"):
                child.attributes.pop(key, None)
            if child.tag == "mesh" and element.tag == "asset":
                before = len(self.complaints.found)
                self._mesh(child)
                if len(self.complaints.found) > before and not self.strict:
                    self.unread[_mesh_name(child)] = self.complaints.found.pop()
            for key, value in child.attributes.items():
                if not value.strip():
                    self._wrong(child, f"<{child.tag}>: {key} is empty.")
                if key in COUNTS and not re.fullmatch(r"[0-9]{1,3}", value.strip()):
                    self._wrong(child, f"<{child.tag}>: {key} must be a whole number below 1000, not '{value[:40]}'.")
                if key.startswith("file") and not (child.tag == "mesh" and element.tag == "asset"):
                    self._wrong(child, f"<{child.tag}>: {key}='{value[:60]}': only meshes may be files here.")
                if key not in ("name", "class", "file") and any(map(_NOT_FINITE.fullmatch, value.split())):
                    self._wrong(child, f"<{child.tag}>: {key} must be finite numbers, not '{value[:60]}'.")
            self._clean(child, number)

    def _leave_out_unread(self) -> None:
        """Meshes that cannot be read are left out where they are pictures only: their bodies' inertia is given."""
        if not self.unread:
            return
        given = all(e.attributes.get("inertiafromgeom", "auto") != "true" for e in self.root.all("compiler"))
        used: defaultdict[str, list[tuple[Element, Element]]] = defaultdict(list)
        for parent in self.root.walk():
            for child in parent.children:
                if "mesh" in child.attributes:
                    used[child.attributes["mesh"]].append((parent, child))
        fixed: set[str] = set()  # whose geoms all belong to bodies with an inertia, or to the ground
        for name, why in self.unread.items():
            if not all(
                c.tag == "geom" and (p.tag == "worldbody" or (p.tag == "body" and given and p.all("inertial")))
                for p, c in used[name]
            ):
                self.complaints.found.append(why)
                continue
            fixed.add(name)
            for parent, child in used[name]:
                parent.children = [c for c in parent.children if c is not child]
            self.left_out["<mesh> that cannot be read (a picture only)"].append(name)
        for asset in self.root.all("asset"):
            asset.children = [c for c in asset.children if c.tag != "mesh" or _mesh_name(c) not in fixed]

    def _mesh(self, element: Element) -> None:
        name = element.attributes.get("file", "")
        element.attributes.pop("content_type", None)
        if not name:
            return  # its points are in the file
        if self.settings.get("strippath", "").lower() == "true":
            name = PurePosixPath(name).name
        folder = self.settings.get("meshdir") or self.settings.get("assetdir") or ""
        found = self._beside(element, f"{folder.rstrip('/')}/{name}" if folder else name)
        if found is None:
            return
        file, there = found
        ending = PurePosixPath(file).suffix.lower()
        if not there or ending not in MESHES:
            why = "there is no such file" if not there else f"a mesh ends in {', '.join(MESHES)}"
            self._wrong(element, f"<mesh>: '{file}': {why}; its inertia is needed.")
            return
        if len(self.files) >= MOST_FILES:
            self._wrong(element, f"more than {MOST_FILES} files.")
            return
        try:
            data = read_bytes(self.folder / file, LARGEST_MESH)
        except DalembertError as error:
            self._wrong(element, f"<mesh>: '{file}': {error}")
            return
        given = f"mesh{len(self.files)}{ending}"
        self.files[given] = data
        element.attributes.setdefault("name", PurePosixPath(file).stem)
        self.meshes[element.attributes["name"]] = file
        element.attributes["file"] = given

    def _beside(self, element: Element, name: str) -> tuple[str, bool] | None:
        try:
            return beside(self.folder, name)
        except DalembertError as error:
            self._wrong(element, f"<{element.tag}>: {error}")
            return None

    # ---- MuJoCo ----------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The elements as XML again, one per line."""
        self.lines = []
        out: list[str] = []

        def write(element: Element) -> None:
            self.lines.append(element)
            attributes = "".join(
                f" {k}={quoteattr(x)}" for k, x in element.attributes.items() if not k.startswith("xmlns")
            )
            out.append(f"<{element.tag}{attributes}{'' if element.children else '/'}>")
            for child in element.children:
                write(child)
            if element.children:
                self.lines.append(element)
                out.append(f"</{element.tag}>")

        write(self.root)
        return "\n".join(out)

    def compile(self):
        """MuJoCo's compiled model, or None with its complaint at the element it is about."""
        mujoco = mujoco_module()
        if _STUCK:  # it then holds a lock, and would block for ever
            raise DalembertError("MuJoCo's compiler failed before in a way it does not recover from; start anew.")
        text, messages = self.text(), []
        with _quiet(messages):
            try:
                found = mujoco.MjModel.from_xml_string(text, self.files)
            except Exception as error:  # the compiler's complaints are of several classes
                found, _STUCK[:] = None, [True] if "unknown exception" in str(error) else _STUCK
                message = " ".join(str(error).split()) or type(error).__name__
                line = re.search(r"\bline (\d+)", message)
                element = self.root
                if line is not None and 0 < int(line[1]) <= len(self.lines):
                    element = self.lines[int(line[1]) - 1]
                message = re.sub(r",? ?(?:id \d+, )?line \d+", "", message)
                self._wrong(
                    element, f"MuJoCo's compiler: {message.removeprefix('XML Error: ').removeprefix('Error: ')}"
                )
        self.warnings = [f"MuJoCo's compiler warns: {' '.join(message.split())}" for message in messages]
        return None if self.complaints.found else found

    def element_of(self, tag: str, name: str) -> Element | None:
        return next((e for e in self.lines if e.tag == tag and e.attributes.get("name") == name), None)


def _mesh_name(element: Element) -> str:
    return element.attributes.get("name") or PurePosixPath(element.attributes.get("file", "")).stem


def _is_field(element: Element) -> bool:
    """Whether a geom is a height field: ground to walk on, which has no contact here."""
    return element.tag == "geom" and (element.attributes.get("type") == "hfield" or "hfield" in element.attributes)


@contextmanager
def _quiet(messages: list[str]):
    """Collect MuJoCo's warnings, which it would write into a file of the current folder."""
    mujoco = mujoco_module()
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(messages.append)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
