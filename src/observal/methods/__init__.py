"""Methods: each a frozen dataclass that implements ``observal.problem.method.Method``.

``auto.py``, ``newton.py`` and ``committee.py`` choose from a pool. ``fitter.py`` is what their fits share;
``draw.py`` and ``stream.py`` choose rows. The paper's methods, which take rows in epochs, are in
``observal.paper``.
"""

from typing import Any, Literal

from observal.methods.auto import AutoVC
from observal.methods.committee import CommitteeVC
from observal.methods.newton import NewtonVC
from observal.paper import Active18, ActiveVC, ExactDBAL, Passive
from observal.problem.method import Method, check_method

__all__ = [
    "Active18",
    "ActiveVC",
    "AutoVC",
    "CommitteeVC",
    "ExactDBAL",
    "Method",
    "MethodLike",
    "NewtonVC",
    "Passive",
    "as_method",
]

MethodLike = Method[Any] | Literal["auto", "newton"] | None
"""A method, its name on the command line, or None for the default."""


def as_method(method: MethodLike) -> Method[Any]:
    """Return a method given as an instance or by its command-line name; ``AutoVC`` for None.

    Examples
    --------
    >>> as_method("newton") == NewtonVC(), as_method(None) == AutoVC()
    (True, True)
    """
    by_name: dict[str, type[Method[Any]]] = {"auto": AutoVC, "newton": NewtonVC}
    if method is None or (isinstance(method, str) and method in by_name):
        return by_name[method or "auto"]()
    return check_method(method)
