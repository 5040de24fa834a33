"""8 · studies: the folder of a study: a manifest, the data (zarr), and for each chunk a line that it is finished.

    study.json        the manifest: models, what varies, what is measured, settings, versions; written last, once
    data.zarr         the dataset: coordinates of all cases, variables in chunks of cases
    done/000012.json  chunk 12 is finished: how many cases failed, when, how long it took
    begun/000012      chunk 12 was begun in a process; more than one line: it took its process with it
    lock              held by the process that writes

A chunk's files are written one by one, each whole or not at all and on the disk before the next; its line in `done`
comes last. What has no such line is computed again. So nothing can be read that is not finished, at any moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dalembert._disk import remove_left
from dalembert._results import DalembertError
from dalembert.io import write_in_place
from dalembert.studies._tasks import Found
from dalembert.studies._vary import START, Cases

MANIFEST, DATA, DONE, BEGUN, LOCK = "study.json", "data.zarr", "done", "begun", "lock"
FORMAT = 1
LOOKS = 10
"""How often a lock is tried, every 0.05 s."""
WAITING = "waiting"
"""Status of a case that is not computed yet."""


def need(module: str) -> Any:
    """A package of the extra `studies`, or a sentence that says what to install."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise DalembertError(
            f"Studies need the package '{module.partition('.')[0]}': pip install 'dalembert[studies]'."
        ) from None


class Store:
    """The folder of a study."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._arrays: dict[str, tuple[bytes, Any]] = {}

    @property
    def exists(self) -> bool:
        """Whether there is a study in the folder."""
        return (self.folder / MANIFEST).is_file()

    # ---- making one --------------------------------------------------------------------------------------

    def create(self, plan: Mapping[str, Any], cases: Cases, layout: Mapping[str, tuple], times, units) -> None:
        """Everything but the numbers; the manifest comes last and makes it a study."""
        strange = sorted(p.name for p in self.folder.iterdir() if p.name not in (DATA, DONE, BEGUN, LOCK)
                         and not p.name.startswith(".dalembert-"))  # fmt: skip
        if strange:
            raise DalembertError(
                f"'{self.folder}' is not the folder of a study, and not empty ('{strange[0]}'); name another folder."
            )
        try:
            for name in (DATA, DONE, BEGUN):
                shutil.rmtree(self.folder / name, ignore_errors=True)
            self._skeleton(plan, cases, layout, times, units)
            for name in (DONE, BEGUN):
                (self.folder / name).mkdir()
        except OSError as error:
            raise self._cannot(error) from None
        self._write_text(self.folder / MANIFEST, json.dumps(plan, indent=1, ensure_ascii=False))

    def _cannot(self, error: OSError) -> DalembertError:
        return DalembertError(f"Cannot write '{self.folder}': {error.strerror or error}.")

    def _skeleton(self, plan, cases: Cases, layout, times, units: Mapping[str, str]) -> None:
        zarr = need("zarr")
        about = {"model": plan["name"], "task": plan["task"], "dalembert_version": plan["versions"]["dalembert"]}
        group = zarr.open_group(self.folder / DATA, mode="w", zarr_format=3, attributes={**about, "coordinates": []})
        coordinates = []

        def whole(name, dims, values, **attributes):
            kind = str if values.dtype == object else values.dtype
            array = group.create_array(
                name, shape=values.shape, chunks=tuple(max(n, 1) for n in values.shape), dtype=kind,
                dimension_names=dims, attributes=attributes,
            )  # fmt: skip
            array[...] = values
            coordinates.append(name)

        whole("case", ("case",), np.arange(cases.count))
        for name, x in cases.values.items():
            dims = ("case", *(f"{name} {k}" for k in range(x.ndim - 1)))
            whole(name.replace("/", "_"), dims, x, **({"units": units[name]} if units.get(name) else {}))
        for name, x in cases.labels.items():
            whole(name.replace("/", "_"), ("case",), x)
        if cases.states is not None:
            for word, x in zip("qv", cases.states, strict=True):
                whole(f"{START} {word}", ("case", f"{START} {word} number"), np.asarray(x, float))
        if times is not None and any(dims for dims, *_ in layout.values()):
            whole("time", ("time",), np.asarray(times, float), units="s")
        chunk = min(plan["chunk"], cases.count)
        for name, (dims, kind, unit) in layout.items():
            steps = tuple(0 if times is None else len(times) for _ in dims)
            group.create_array(
                name, shape=(cases.count, *steps), chunks=(chunk, *steps), dtype=kind,
                fill_value=False if kind == "?" else np.nan, dimension_names=("case", *dims),
                attributes={"units": unit} if unit else {},
            )  # fmt: skip
        for name, empty in (("status", WAITING), ("message", "")):
            group.create_array(
                name, shape=(cases.count,), chunks=(chunk,), dtype=str, fill_value=empty, dimension_names=("case",)
            )
        group.attrs["coordinates"] = coordinates

    # ---- reading -----------------------------------------------------------------------------------------

    def plan(self) -> dict[str, Any]:
        """The manifest."""
        path = self.folder / MANIFEST
        if not self.exists:
            raise DalembertError(f"'{self.folder}' is not the folder of a study: there is no {MANIFEST} in it.")
        try:
            plan = json.loads(path.read_text(encoding="utf-8"))
            if plan["study"] != FORMAT:
                raise DalembertError(f"'{path}' was written in another form ({plan['study']}); this reads {FORMAT}.")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DalembertError(f"'{path}' cannot be read ({type(error).__name__}: {error}).") from None
        return plan

    def dataset(self):
        """All that is finished, as an xarray Dataset; what is not is NaN, with status "waiting"."""
        need("zarr")
        import xarray as xr

        data = xr.open_zarr(self.folder / DATA, consolidated=False, chunks=None)
        names = [*data.attrs.pop("coordinates", []), "status", "message"]
        data["status"].load()  # before all others, which may be written meanwhile: they are there where it is
        texts = {
            n: x.astype(object) for n, x in data.variables.items() if x.dtype.kind == "T"
        }  # as xarray expects them
        return data.assign(texts).set_coords([n for n in names if n in data])

    def cases(self) -> Cases:
        """The table of cases, bit for bit."""
        data, plan = self.dataset(), self.plan()
        values = {n: np.asarray(data[n.replace("/", "_")].values, float) for n in plan["varies"]["values"]}
        labels = {n: data[n.replace("/", "_")].values.astype(object) for n in plan["varies"]["labels"]}
        states = None
        if plan["varies"]["states"]:
            from dalembert.systems import State

            states = State(*(np.asarray(data[f"{START} {w}"].values, float) for w in "qv"))
        found = Cases(plan["cases"], values, labels, states)
        if found.fingerprint() != plan["table"]:
            raise DalembertError(f"The table of cases in '{self.folder}' is not the one that the study began with.")
        return found

    def done(self) -> dict[int, dict[str, Any]]:
        """The finished chunks, by number."""
        out = {}
        for path in sorted((self.folder / DONE).glob("[0-9]*.json")):
            with contextlib.suppress(OSError, ValueError):
                out[int(path.stem)] = json.loads(path.read_text(encoding="utf-8"))
        return out

    # ---- writing -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """While this process writes; refuses when another one does."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / LOCK, os.O_CREAT | os.O_RDWR, 0o644)
        except OSError as error:
            raise self._cannot(error) from None
        try:
            with contextlib.suppress(ImportError):  # elsewhere than on POSIX there is no such lock
                import fcntl

                for attempt in range(LOOKS):
                    try:
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:  # who asks how far it is holds it for a moment
                        if attempt == LOOKS - 1:
                            raise DalembertError(
                                f"Another process is computing the study in '{self.folder}'."
                            ) from None
                        time.sleep(0.05)
                    except OSError:  # a file system without locks
                        break
            remove_left(self.folder)
            yield
        finally:
            os.close(handle)

    def write(self, chunk: int, first: int, found: Found, wall: float, session: str) -> None:
        """A finished chunk, whole or not at all."""
        columns = dict(found.numbers)
        columns["message"] = np.array(found.message, object)
        columns["status"] = np.array(found.status, object)  # last: where it is there, the others are
        for name, values in columns.items():
            files = self._encoded(name, first, values)
            try:
                (self.folder / DATA / name / "c").mkdir(exist_ok=True)
                for path, _ in files:
                    path.parent.mkdir(parents=True, exist_ok=True)
                if not files:  # zarr writes nothing where all is as in an empty chunk: nor may older files stand there
                    self._remove(self.folder / DATA / name / "c" / str(chunk))
            except OSError as error:
                raise self._cannot(error) from None
            for path, data in files:
                self._write_bytes(path, data)
        note = {
            "cases": len(found.status), "failed": found.failed, "finished": time.time(), "wall_s": wall,
            "session": session,
        }  # fmt: skip
        self._write_text(self.folder / DONE / f"{chunk:06d}.json", json.dumps(note))
        with contextlib.suppress(OSError):
            (self.folder / BEGUN / f"{chunk:06d}").unlink()

    @staticmethod
    def _remove(path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def _encoded(self, name: str, first: int, values: np.ndarray) -> list[tuple[Path, bytes]]:
        """The files that hold some cases of a variable, as zarr writes them."""
        zarr = need("zarr")
        from zarr.core.buffer import default_buffer_prototype
        from zarr.storage import MemoryStore

        folder = self.folder / DATA / name
        if name not in self._arrays:
            self._arrays[name] = (folder / "zarr.json").read_bytes(), None
        held: dict[str, Any] = {"zarr.json": default_buffer_prototype().buffer.from_bytes(self._arrays[name][0])}
        array = zarr.open_array(MemoryStore(held), mode="r+")
        array[first : first + len(values)] = values
        return [(folder / key, part.to_bytes()) for key, part in held.items() if key != "zarr.json"]

    def _write_bytes(self, path: Path, data: bytes) -> None:
        write_in_place(path, path.suffix, lambda name: Path(name).write_bytes(data))

    def _write_text(self, path: Path, text: str) -> None:
        self._write_bytes(path, text.encode("utf-8"))

    def begin(self, chunk: int) -> int:
        """Note that a chunk is begun in this process; how many processes have begun it before and are gone."""
        path = self.folder / BEGUN / f"{chunk:06d}"
        try:
            before = len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{os.getpid()}\n")
        except OSError as error:
            raise self._cannot(error) from None
        return before

    def stopped(self, chunk: int) -> None:
        """Take the note back: the chunk was left in order."""
        with contextlib.suppress(OSError):
            (self.folder / BEGUN / f"{chunk:06d}").unlink()

    def status(self) -> dict[str, Any]:
        """How far it is, in numbers."""
        plan, done = self.plan(), self.done()
        count = sum(note["cases"] for note in done.values())
        failed = sum(note["failed"] for note in done.values())
        last = max((note["finished"] for note in done.values()), default=None)
        newest = max(done.values(), key=lambda note: note["finished"], default=None)
        # the rate of the session that finished the newest chunk, by its own chunks
        mine = [n for n in done.values() if newest is not None and n["session"] == newest["session"]]
        begun = min((n["finished"] - n["wall_s"] for n in mine), default=0.0)
        seconds = max((n["finished"] for n in mine), default=0.0) - begun
        rate = sum(n["cases"] for n in mine) / seconds if seconds > 0 else None
        left = plan["cases"] - count
        return {
            "name": plan["name"], "task": plan["task"], "cases": plan["cases"], "done": count, "failed": failed,
            "chunks": -(-plan["cases"] // plan["chunk"]), "chunks_done": len(done), "rate": rate,
            "time_left": None if rate is None else left / rate, "last_finished": last, "running": self.running(),
        }  # fmt: skip

    def running(self) -> bool:
        """Whether a process is computing it on this machine."""
        try:
            import fcntl

            handle = os.open(self.folder / LOCK, os.O_RDONLY)
        except (ImportError, OSError):
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False
