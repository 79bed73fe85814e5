"""Methods: each a frozen dataclass; ``base.py`` says what a method must have.

``auto/``, ``newton/`` and ``committee.py`` choose from a pool (``pool.py``, and ``intervals.py`` for their intervals); ``paper/`` has
the methods of the paper, which take rows in epochs.
"""

from observal.methods.auto import AutoVC
from observal.methods.committee import CommitteeVC
from observal.methods.newton import NewtonVC
from observal.paper import Active18, ActiveVC, ExactDBAL, Passive
from observal.problem.method import Method

__all__ = ["Active18", "ActiveVC", "AutoVC", "CommitteeVC", "ExactDBAL", "Method", "NewtonVC", "Passive"]
