"""The command line as a person starts it, and in this process: the same words without loading all of JAX again."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from unittest import mock


def dalembert(*arguments, timeout=240, **environment):
    """In a process of its own."""
    command = [sys.executable, "-m", "dalembert", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, env={**os.environ, **environment}
    )


def in_process(*arguments):
    """What `main` does, but that streams keep their encoding; an exception that it does not tell is not caught."""
    from dalembert import cli

    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as here:
        here.enter_context(mock.patch.object(sys, "argv", ["dalembert", *arguments]))
        here.enter_context(contextlib.redirect_stdout(out))
        here.enter_context(contextlib.redirect_stderr(err))
        here.enter_context(warnings.catch_warnings())
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"dalembert: {message}", file=sys.stderr)
        code = cli._command()
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def python_process(code: str) -> Iterator[subprocess.Popen[str]]:
    """Python code in a process that Ctrl-C ends, also if this one was started where it is ignored (in the background);
    it is gone afterwards, whatever happens."""
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{code}"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
