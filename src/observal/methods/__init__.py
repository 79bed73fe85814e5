"""Methods: each a frozen dataclass in a file of its own; ``base.py`` says what they must offer."""

from observal.methods.base import Method
from observal.methods.exact import ExactDBAL

__all__ = ["ExactDBAL", "Method"]
