"""edge · `dalembert` and `python -m dalembert`: the command line, which may be stopped while it is still loading."""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Entry point of the command line; Ctrl-C ends it with one line and exit code 130, from here on."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is to be ignored
        signal.signal(signal.SIGINT, _interrupted)
    try:
        from dalembert.cli import main as run

        run()
    except KeyboardInterrupt:
        _stop()
    except SystemExit as end:
        if end.code == 130:  # already reported
            _leave()
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
    _leave()


def _leave() -> None:
    """At once: a second Ctrl-C must not spoil the way out."""
    with contextlib.suppress(RuntimeError, OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(130)


if __name__ == "__main__":
    main()
