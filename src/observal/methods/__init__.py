"""Methods: each a frozen dataclass in a file of its own; ``base.py`` says what they must offer."""

from observal.methods.active18 import Active18
from observal.methods.active_vc import ActiveVC
from observal.methods.base import Method
from observal.methods.committee_vc import CommitteeVC
from observal.methods.exact import ExactDBAL
from observal.methods.newton_vc import NewtonVC
from observal.methods.passive import Passive

__all__ = ["Active18", "ActiveVC", "CommitteeVC", "ExactDBAL", "Method", "NewtonVC", "Passive"]
