"""edge · options that are NAME=VALUE, as numbers; what they say is known of joints."""

from __future__ import annotations

from typing import Any

from dalembert._results import DalembertError


def number(text: str, who: str) -> float:
    """A number or an expression, such as 90*deg; a mistake in it is reported with the option that it stands in."""
    from dalembert.model import value_of

    try:
        return value_of(text)
    except DalembertError as error:
        raise DalembertError(f"{who}: {error}") from None


def numbers(text: str, who: str) -> list[float]:
    """Numbers with commas, also in brackets."""
    return [number(part, who) for part in text.strip("[]() ").split(",")]


def one_or_several(text: str, who: str) -> Any:
    """A number, or several with commas."""
    found = numbers(text, who)
    return found[0] if len(found) == 1 else found


def texts_of(texts: list[str], option: str) -> dict[str, str]:
    """NAME=TEXT, … as a dictionary."""
    return dict(_parts(text, option) for text in texts)


def assigned(texts: list[str], option: str) -> dict[str, Any]:
    """NAME=VALUE, … as a dictionary; a value is a number, or several."""
    return dict(_named(text, option) for text in texts)


def _named(text: str, option: str) -> tuple[str, Any]:
    name, value = _parts(text, option)
    return name, one_or_several(value, f"{option} {text}")


def _parts(text: str, option: str) -> tuple[str, str]:
    name, equals, value = (x.strip() for x in text.partition("="))
    if not (equals and name and value):
        raise DalembertError(f"{option} {text}: write NAME=VALUE.")
    return name, value


def split_component(name: str) -> tuple[str, str]:
    """ "foot.Fz" → ("foot", "Fz"); a name alone has no component."""
    joint, _, component = name.rpartition(".")
    is_one = component.lstrip("-") in ("Fx", "Fy", "Fz", "Mx", "My", "Mz", "F", "M")
    return (joint, component) if joint and is_one else (name, "")


def known_of(push_only, pull_only, friction, strength, play) -> dict[str, dict]:
    """What the options say is known of joints, as the fields of `reactions.Known`."""
    out: dict[str, dict] = {}
    for field, names in (("push_only", push_only), ("pull_only", pull_only)):
        for name in names or ():
            joint, component = split_component(name)
            out.setdefault(field, {})[joint] = component or None
    for text in friction or ():
        name, mu = _named(text, "--friction")
        joint, component = split_component(name)
        out.setdefault("friction", {})[joint] = (mu, component) if component else mu
    for text in strength or ():
        name, most = _named(text, "--strength")
        joint, component = split_component(name)
        out.setdefault("strength", {}).setdefault(joint, {})[component or "F"] = most
    for name in play or ():
        joint, component = split_component(name)
        if not component:
            raise DalembertError(f"--play {name}: write JOINT.COMPONENT, such as {name}.Mx.")
        out.setdefault("play", {}).setdefault(joint, []).append(component)
    return out


def limits(known: dict[str, dict]):
    """What `known_of` has found, checked, as `check` and `report` take it."""
    from dalembert.reactions import Known

    return Known(**known)
