"""edge · files: the disk. What is read is a plain file of limited size; what is written is never half-written."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from dalembert._results import DalembertError

LARGEST = 5_000_000  # bytes of a model file, or of a table beside it


def read_text(path: Path, *, follow: bool = True) -> str:
    """The text of a plain file, or a `DalembertError` that says why not. Devices and pipes are never opened."""
    try:
        before = path.stat(follow_symlinks=follow)
        _need_plain(before)
        # a pipe put in its place meanwhile must not make us wait
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
        with os.fdopen(handle, "rb") as file:
            _need_plain(os.fstat(file.fileno()))
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise DalembertError("there is no such file.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is not allowed"
        raise DalembertError(f"it cannot be read: {why}.") from None
    if len(data) > LARGEST:
        raise DalembertError(f"it is larger than {LARGEST / 1e6:g} MB.")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DalembertError(f"it is not a text in UTF-8 (byte {error.start + 1}); save it as UTF-8.") from None


def _need_plain(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise DalembertError("it is a folder, not a file.")
    if stat.S_ISLNK(found.st_mode):
        raise DalembertError("it is a link; put the file itself here.")
    if not stat.S_ISREG(found.st_mode):
        raise DalembertError("it is not a plain file.")
    if found.st_size > LARGEST:
        raise DalembertError(f"it has {found.st_size / 1e6:.1f} MB; at most {LARGEST / 1e6:g} MB are read.")


def write_in_place(path, suffix: str, write: Callable[[str], object]) -> Path:
    path = Path(path)
    if not path.parent.is_dir():
        raise DalembertError(f"Cannot write '{path}': the folder '{path.parent}' does not exist.")
    if path.is_dir():
        raise DalembertError(f"Cannot write '{path}': it is a folder.")
    try:
        handle, temporary = tempfile.mkstemp(suffix=suffix, prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise DalembertError(f"Cannot write '{path}': {error.strerror}.") from None
    try:
        write(temporary)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        raise DalembertError(f"Cannot write '{path}': {error.strerror}.") from None
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path
