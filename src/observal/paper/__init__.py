"""The paper's methods: Algorithm 1 on a finite class (``exact.py``), and the three linear learners of its experiments."""

from observal.paper.active18 import Active18
from observal.paper.active_vc import ActiveVC
from observal.paper.exact import ExactDBAL
from observal.paper.passive import Passive

__all__ = ["Active18", "ActiveVC", "ExactDBAL", "Passive"]
