"""0 · the disk: files are written whole or not at all; results, pictures, pages and models all go through here.

A file is written under another name in the same folder, brought to the disk and then put in place, so that a full disk
or a run that is killed never leaves half a file, nor takes away an older one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dalembert._results import DalembertError, check_place

LEFT_BEHIND = 60.0
"""The temporary file of a process that is gone is removed at this age in seconds."""
FORGOTTEN = 86_400.0
"""Any temporary file of ours is removed at this age in seconds."""

_HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
_TEMPORARY = re.compile(r"\.dalembert-(?P<host>[0-9a-f]{8})-(?P<process>\d+)-\w+\.tmp(\.\w+)?")


def write_in_place(path, suffix: str, write: Callable[[str], object], *, replace: bool = True) -> Path:
    """Have `write(name)` write a file beside `path`, ending in `suffix`, and put it in its place when it is complete.

    Failures are raised as `DalembertError`, and an existing file stays as it was. With `replace=False` an
    existing file is refused with `FileExistsError`.
    """
    path = Path(path)
    check_place(path)
    if not replace and path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    _sweep(path.parent)
    try:
        prefix = f".dalembert-{_HOST}-{os.getpid()}-"
        handle, temporary = tempfile.mkstemp(suffix=f".tmp{suffix}", prefix=prefix, dir=path.parent)
        os.close(handle)
    except (OSError, ValueError) as error:
        raise DalembertError(f"Cannot write '{path}': {_reason(error, path.parent)}.") from None
    try:
        write(temporary)
        os.chmod(temporary, _mode(path))
        _to_disk(temporary)
        if not replace:  # claims the name; the content follows at once
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.replace(temporary, path)
        _to_disk(path.parent)
    except FileExistsError:
        raise
    except OSError as error:
        raise DalembertError(f"Cannot write '{path}': {_reason(error, path.parent)}.") from None
    except RuntimeError as error:  # netCDF reports a full disk so
        raise DalembertError(f"Cannot write '{path}': {_reason(error, path.parent)}.") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return path


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, or what a new file gets."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o777
    except (OSError, ValueError):
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def _to_disk(path) -> None:
    """Wait until a file is on the disk, or a folder's names are (where folders can be opened)."""
    folder = os.path.isdir(path)
    try:
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    except OSError:
        if folder:  # Windows
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        # some file systems cannot; others report here, and only here, that the disk is full
        if not folder and error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
            raise
    finally:
        os.close(handle)


def _reason(error: Exception, folder: Path) -> str:
    """Why nothing was written. Libraries that write for us do not always report a full disk: check."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return error.strerror
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < 65_536:
            return os.strerror(errno.ENOSPC)
    lines = str(error).strip().splitlines()
    return lines[-1].rstrip(".") if lines else type(error).__name__


def remove_left(folder: Path) -> None:
    """Remove the temporary files that processes which are gone have left in a folder and in those inside it; for whom
    holds the folder alone, and need not wait."""
    for place, _, names in os.walk(folder):
        if any(map(_TEMPORARY.fullmatch, names)):
            _sweep(Path(place), 0.0)


def _sweep(folder: Path, left_behind: float = LEFT_BEHIND) -> None:
    """Remove our own temporary files that a killed run has left in this folder."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = _TEMPORARY.fullmatch(entry.name)
            if name is None:
                continue
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                age = time.time() - found.st_mtime
                mine = stat.S_ISREG(found.st_mode) and (os.name != "posix" or found.st_uid == os.getuid())
                gone = age > left_behind and name["host"] == _HOST and _is_gone(int(name["process"]))
                if mine and (gone or age > FORGOTTEN):
                    os.unlink(entry.path)


def _is_gone(process: int) -> bool:
    """Whether no such process runs on this machine; False where that cannot be determined."""
    if os.name != "posix":  # there, os.kill would end it
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
