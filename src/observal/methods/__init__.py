"""Methods: each a frozen dataclass; :class:`observal.problem.method.Method` says what a method must have.

``auto.py``, ``newton.py`` and ``committee.py`` choose from a pool: ``fitter.py`` has what their fits share, ``draw.py`` and ``stream.py`` how rows
are chosen. :mod:`observal.paper` has the methods of the paper, which take rows in epochs.
"""

from observal.methods.auto import AutoVC
from observal.methods.committee import CommitteeVC
from observal.methods.newton import NewtonVC
from observal.paper import Active18, ActiveVC, ExactDBAL, Passive
from observal.problem.method import Method

__all__ = ["Active18", "ActiveVC", "AutoVC", "CommitteeVC", "ExactDBAL", "Method", "NewtonVC", "Passive"]
