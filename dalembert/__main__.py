"""edge · `dalembert` and `python -m dalembert`: the command line, which may be stopped while it is still loading."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys

YOUNG = 200_000
"""New objects after which Python looks for garbage. A command makes about as many before its motion begins, most of
them modules, which stay: by default Python would look at them 400 times, in a quarter of a second."""


def main() -> None:
    """Entry point of the command line; Ctrl-C ends it with one line and exit code 130, from here on."""
    gc.set_threshold(YOUNG)
    codes: list[int] = []
    atexit.register(_last, codes)  # what is registered first is called last
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is to be ignored
        signal.signal(signal.SIGINT, _interrupted)
    try:
        from dalembert.cli import main as run

        run()
    except KeyboardInterrupt:
        _stop()
    except SystemExit as end:
        if end.code == 130:  # already reported; a second Ctrl-C must not spoil the way out
            _leave(130)
        if end.code is None or isinstance(end.code, int):
            codes.append(end.code or 0)
        raise


def _interrupted(_, frame) -> None:
    """In the middle of an import an interrupt ends the process: compiled libraries cannot be left half loaded."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _stop()
        frame = frame.f_back
    raise KeyboardInterrupt


def _stop() -> None:
    with contextlib.suppress(RuntimeError, OSError):  # interrupted while printing; the reader is gone
        print("dalembert: stopped.", file=sys.stderr, flush=True)
    _leave(130)


def _last(codes: list[int]) -> None:
    """End the process once all else that is to be done at its end has been: Python would go on to delete all modules,
    one object after the other, for a third of a second."""
    if codes:
        _leave(*codes)


def _leave(code: int) -> None:
    """At once, with what was printed."""
    with contextlib.suppress(RuntimeError, OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
