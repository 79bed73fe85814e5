"""NewtonVC: ``method.py`` has its settings and decisions, ``model.py`` its two fits, ``earlier.py`` the comparison with the log's classifier."""

from observal.methods.newton.method import NewtonClassifier, NewtonVC

__all__ = ["NewtonClassifier", "NewtonVC"]
