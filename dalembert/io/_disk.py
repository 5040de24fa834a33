"""edge · files: what is read is a plain file of limited size."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dalembert._results import Complaint, DalembertError, FileError
from dalembert.model import inside_folder

LARGEST = 5_000_000  # bytes of a model file, or of a table beside it


def read_text(path: Path, *, follow: bool = True) -> str:
    """The text of a plain file, or a `DalembertError` with the reason. Devices and pipes are never opened."""
    data = read_bytes(path, LARGEST, follow=follow)
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DalembertError(f"it is not a text in UTF-8 (byte {error.start + 1}); save it as UTF-8.") from None


def file_text(path: Path, *, follow: bool = True) -> str:
    """The same, but a `FileError` of that file."""
    try:
        return read_text(path, follow=follow)
    except DalembertError as error:
        raise FileError(path, [Complaint(0, 0, str(error))]) from None


def read_bytes(path: Path, largest: int, *, follow: bool = False) -> bytes:
    """The bytes of a plain file, which is no link unless it may `follow` one."""
    try:
        before = path.stat(follow_symlinks=follow)
        _need_plain(before, largest)
        # a pipe that replaced it meanwhile must not block
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
        with os.fdopen(handle, "rb") as file:
            _need_plain(os.fstat(file.fileno()), largest)
            data = file.read(largest + 1)
    except FileNotFoundError:
        raise DalembertError("there is no such file.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is not allowed"
        raise DalembertError(f"it cannot be read: {why}.") from None
    if len(data) > largest:
        raise DalembertError(f"it is larger than {largest / 1e6:g} MB.")
    return data


def beside(folder: Path, name: str) -> tuple[str, bool]:
    """A file that another file names, as a name in its folder or below, and whether it exists.

    Refused with `DalembertError`: ways out of the folder, other machines, links. `package://NAME/…` is searched for in
    the folder, with NAME and without it.
    """
    text = name.strip()
    candidates = [text.removeprefix("./")]
    if text.startswith("package://"):
        rest = text.removeprefix("package://")
        candidates = [rest.split("/", 1)[-1], rest]
    elif "://" in text:
        raise DalembertError(f"'{name[:100]}' lies elsewhere; only files in the folder of the model are named.")
    if not all(inside_folder(candidate) for candidate in candidates):
        raise DalembertError(f"'{name[:100]}' leads out of the folder of the model; put the file into it.")
    for candidate in candidates:
        here = folder
        for part in candidate.split("/"):
            here = here / part
            if here.is_symlink():
                raise DalembertError(f"'{name[:100]}': '{part}' is a link; put the file itself there.")
        if here.is_file():
            return candidate, True
    return candidates[0], False


def _need_plain(found: os.stat_result, largest: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise DalembertError("it is a folder, not a file.")
    if stat.S_ISLNK(found.st_mode):
        raise DalembertError("it is a link; put the file itself here.")
    if not stat.S_ISREG(found.st_mode):
        raise DalembertError("it is not a plain file.")
    if found.st_size > largest:
        raise DalembertError(f"it has {found.st_size / 1e6:.1f} MB; at most {largest / 1e6:g} MB are read.")
