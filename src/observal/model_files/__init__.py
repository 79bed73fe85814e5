"""A classifier in a file, with what turns raw rows into numbers; opening a file runs nothing of a stranger's."""

from observal.model_files.files import load_model, make_model, save_model

__all__ = ["load_model", "make_model", "save_model"]
