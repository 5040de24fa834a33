"""0 · the switchboard: float64 and the compile cache, set once, before any array is made.

Importing any numerical room of dalembert imports this file first. It does three things to JAX:

- switches on float64 (a mechanism in float32 loses its constraints after a few steps);
- has XLA run the operations of a program one after the other: ours are many and small, and handing them to
  several threads takes longer than doing them (a third of a four-bar's time). An `XLA_FLAGS` that speaks of it wins;
- points JAX's persistent compile cache at a folder of the user, so that the second run of a mechanism
  waits a few seconds instead of a compiler. Set ``DALEMBERT_CACHE=off`` to turn it off, or
  ``DALEMBERT_CACHE=/some/folder`` to move it. A cache folder the user has already given to JAX is kept.
"""

from __future__ import annotations

import os
import sys
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
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # small programs count too: a cold start is many of them
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


class _Stopwatch:
    """Seconds spent tracing and compiling, as JAX itself reports them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, duration: float, **_: object) -> None:
        if event.startswith("/jax/core/compile/"):
            self.seconds += duration


_switch_on_cache()
compile_stopwatch = _Stopwatch()
