"""Every example in the docstring of a public name runs, and says what it prints."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re

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
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(THINGS[name]) or "", {}, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    assert runner.run(test, out=said.append).failed == 0, "".join(said)


def test_every_public_thing_says_what_it_is():
    silent = [name for name, x in THINGS.items() if not (inspect.getdoc(x) or "").strip()]
    assert not silent, f"no docstring: {', '.join(silent)}"


FRONT = [name for name in da.__all__ if callable(getattr(da, name))]


@pytest.mark.parametrize("name", FRONT)
def test_names_at_the_front_door_say_what_they_take_and_return(name):
    """Each argument by its name, what comes back (of a function), and an example that runs."""
    thing = getattr(da, name)
    text = inspect.getdoc(thing) or ""
    _, _, after = text.partition("**Arguments**")
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]*`", after))))
    unnamed = [key for key in inspect.signature(thing).parameters if key not in named]
    assert not unnamed, f"da.{name}: nothing about {', '.join(unnamed)}"
    assert "**Returns**" in text or inspect.isclass(thing), f"da.{name}: what does it return?"
    assert ">>>" in text, f"da.{name}: no example"
