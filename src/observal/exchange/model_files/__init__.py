"""A classifier in a file, with the encoder for raw rows; opening a file cannot run code from it."""

from observal.exchange.model_files.files import load_model, make_model, save_model

__all__ = ["load_model", "make_model", "save_model"]
