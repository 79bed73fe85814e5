"""AutoVC: the default method. ``method.py`` has its settings and decisions, ``model.py`` its fit."""

from observal.methods.auto.method import AutoVC

__all__ = ["AutoVC"]
