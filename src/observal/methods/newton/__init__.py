"""NewtonVC: ``method.py`` has its settings and decisions, ``model.py`` its two fits, ``stream.py`` what differs on a stream."""

from observal.methods.newton.method import NewtonClassifier, NewtonVC

__all__ = ["NewtonClassifier", "NewtonVC"]
