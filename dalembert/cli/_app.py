"""edge · the program itself: its start, its version, and every error as one sentence."""

from __future__ import annotations

import sys
import time
import warnings
from typing import Annotated

import typer

from dalembert import _streams
from dalembert._results import DalembertError

STARTED = time.perf_counter()

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="dalembert: the dynamics of constrained mechanical systems.",
)


def _show_version(asked: bool) -> None:
    if asked:
        import dalembert

        print(f"dalembert {dalembert.__version__}")
        raise typer.Exit()


@app.callback()
def _any_command(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point: every error that is meant for users is one sentence, never a traceback."""
    _streams.carry_any_text()
    # a warning is one sentence, too, and printed once
    warnings.showwarning = lambda message, *_: print(f"dalembert: {message}", file=sys.stderr)
    warnings.simplefilter("once", UserWarning)
    sys.exit(_command() or _streams.finish())


def _command() -> int:
    """Run the command of the arguments; the exit code."""
    try:
        app()
    except SystemExit as end:
        if end.code == 130:  # typer has handled the Ctrl-C
            print("dalembert: stopped.", file=sys.stderr)
        code = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
        return _streams.finish() or code
    except DalembertError as error:
        print(f"dalembert: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dalembert: stopped.", file=sys.stderr)
        return 130
    except OSError as error:
        if error.filename is None:  # a print
            return _streams.refuse(error)
        print(f"dalembert: '{error.filename}': {error.strerror}.", file=sys.stderr)
        return 2
    return 0
