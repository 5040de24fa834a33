"""Every example in the docstring of a public name runs, and says what it prints."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

import dalembert as da


def public_things():
    """Names at the door, and of all rooms' `__all__`, each once; not types of Python and NumPy under a name of ours."""
    found = {name: getattr(da, name) for name in da.__all__}
    for room in da._ROOMS:
        module = importlib.import_module(f"dalembert.{room}")
        found |= {f"{room}.{name}": getattr(module, name) for name in getattr(module, "__all__", [])}
    ours = {name for name, x in found.items() if (getattr(x, "__module__", None) or "").startswith("dalembert")}
    return {name: thing for name, thing in found.items() if callable(thing) and name in ours}


THINGS = public_things()
EXAMPLES = {id(x): name for name, x in reversed(THINGS.items()) if ">>>" in (inspect.getdoc(x) or "")}


@pytest.mark.parametrize("name", sorted(EXAMPLES.values()))
def test_examples_in_docstrings_run(name):
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(THINGS[name]) or "", {}, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    assert runner.run(test, out=said.append).failed == 0, "".join(said)


def test_every_public_thing_says_what_it_is():
    silent = [name for name, x in THINGS.items() if not (inspect.getdoc(x) or "").strip()]
    assert not silent, f"no docstring: {', '.join(silent)}"
