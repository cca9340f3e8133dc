"""One class for each way to train, made from the same table as the command line's: ``ppo-lag`` is :class:`PPOLag`."""

from __future__ import annotations

from p3o import _p3o
from p3o.trainer import Algorithm


def _class_name(method: str) -> str:
    first, *rest = method.split("-")
    return first.upper() + "".join(part.capitalize() for part in rest)


def _documentation(method: dict[str, object]) -> str:
    agents = {
        "single": "",
        "centralised": " For worlds of several agents, which share a policy; critics see all of them.",
        "decentralised": " For worlds of several agents, each with a policy and critics of its own.",
    }[str(method["agents"])]
    limits = {"none": "It ignores costs.", "one": "It keeps one limit.", "any": "It keeps any number of limits."}
    own = "".join(f"\n        {name}: {text}" for name, text in method["settings"])  # type: ignore[attr-defined]
    settings = f"\n\n    Its own settings, beside what :class:`p3o.Algorithm` takes:{own}" if own else ""
    return f"{method['summary']}.{agents} {limits[str(method['limits'])]}{settings}\n    "


__all__ = []
for _method in _p3o.methods():
    _name = _class_name(_method["name"])
    _body = {"method": _method["name"], "__doc__": _documentation(_method), "__module__": __name__}
    globals()[_name] = type(_name, (Algorithm,), _body)
    __all__.append(_name)
