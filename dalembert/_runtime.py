"""0 · the switchboard: float64 and the compile cache, set once, before any array is made.

Importing any numerical room of dalembert imports this file first. It does three things to JAX:

- switches on float64 (a mechanism in float32 loses its constraints after a few steps);
- has XLA run the operations of a program one after the other: ours are many and small, and handing them to
  several threads takes longer than doing them (a third of a four-bar's time). An `XLA_FLAGS` that sets this wins;
- points JAX's persistent compile cache at a folder of the user, so that the second run of a mechanism
  waits a few seconds instead of a compiler. Set ``DALEMBERT_CACHE=off`` to turn it off, or
  ``DALEMBERT_CACHE=/some/folder`` to move it. A cache folder the user has already given to JAX is kept. Entries are
  written whole or not at all and have a checksum: a corrupt one is removed, compiled again and stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import warnings
from pathlib import Path

_ONE_AFTER_THE_OTHER = "--xla_cpu_enable_concurrency_optimized_scheduler"
if _ONE_AFTER_THE_OTHER not in os.environ.get("XLA_FLAGS", ""):  # read by XLA when its first program is compiled
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_ONE_AFTER_THE_OTHER}=false".strip()

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)


def cache_folder() -> Path | None:
    """The folder of compiled programs, or None when the cache is switched off."""
    setting = os.environ.get("DALEMBERT_CACHE", "")
    if setting.lower() in ("off", "0", "no", "false"):
        return None
    if setting:
        return Path(setting).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    return base.expanduser() / "dalembert" / "xla"


def _switch_on_cache() -> None:
    folder = cache_folder()
    if folder is None or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a read-only home is no reason to stop; programs are then compiled each time
    _put_programs_into(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # small programs count too: a cold start is many of them
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


class ProgramFiles:
    """Compiled programs as files of a folder, by JAX's interface of a cache: `get` and `put` by a key. No errors: what
    cannot be read or written is compiled, with one warning."""

    CHECK = hashlib.sha256().digest_size

    def __init__(self, folder: Path):
        self._path = folder
        self._warned = False

    def get(self, key: str) -> bytes | None:
        try:
            content = self._file(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._warn(f"cannot be read from {self._path} ({error.strerror})")
        program, check = content[: -self.CHECK], content[-self.CHECK :]
        if hashlib.sha256(program).digest() == check:
            return program
        with contextlib.suppress(OSError):
            self._file(key).unlink()
        return self._warn(f"were spoilt in {self._path} and are made anew")

    def put(self, key: str, program: bytes) -> None:
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(dir=self._path, prefix=".half-")
            with os.fdopen(handle, "wb") as file:
                file.write(program + hashlib.sha256(program).digest())
            os.replace(temporary, self._file(key))
        except OSError as error:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            self._warn(
                f"cannot be kept in {self._path} ({error.strerror}); DALEMBERT_CACHE names another folder, or off"
            )

    def clear(self) -> None:
        for file in self._path.glob("*.program"):
            file.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._path / f"{key}.program"

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"Compiled programs {what}.", stacklevel=2)


def _put_programs_into(folder: Path) -> None:
    """Have JAX use `ProgramFiles` for this folder; with a JAX of another structure its own files are used."""
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import compilation_cache

        of_jax = compilation_cache.get_file_cache
        ours = ProgramFiles(folder)
        compilation_cache.get_file_cache = lambda path: (ours, path) if path == str(folder) else of_jax(path)


class _Stopwatch:
    """Seconds spent tracing and compiling, and how many programs were compiled or read, as JAX itself reports them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.programs = 0
        jax.monitoring.register_event_duration_secs_listener(self._record)

    def _record(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            self.seconds += duration_secs
            self.programs += event == "/jax/core/compile/backend_compile_duration"


_switch_on_cache()
compile_stopwatch = _Stopwatch()
