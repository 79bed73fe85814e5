"""How the labelling page shows rows: a column of images, a picture made of columns; stored in the settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from observal.errors import InvalidInput


def shown_as(
    rows: Any, images: str | Path | None, image_column: str | None, pixels: tuple[int, int] | None
) -> dict[str, Any]:
    """Return how rows are shown, checked, for the settings.

    Examples
    --------
    >>> import pyarrow as pa
    >>> shown_as(pa.table({"scan": ["aGk="]}), None, "scan", None)
    {'images': None, 'image_column': 'scan', 'pixels': None}
    """
    if images is not None and image_column is None:
        raise InvalidInput(
            "A folder of images needs the column with their paths; name it with --image-column (image_column=)."
        )
    if image_column is not None and image_column not in rows.column_names:
        raise InvalidInput(
            f"The pool has no column {image_column!r} for images, its columns are {rows.column_names}; name an existing one."
        )
    folder = None if images is None else Path(images).resolve()
    if folder is not None and not folder.is_dir():
        raise InvalidInput(f"The folder of images {folder} does not exist; give the folder that the paths start from.")
    if pixels is not None:
        pixels = check_pixels(pixels)
    return {
        "images": None if folder is None else str(folder),
        "image_column": image_column,
        "pixels": pixels and list(pixels),
    }


def check_pixels(pixels: Sequence[int]) -> tuple[int, int]:
    """Return the height and width of a picture, or refuse them."""
    if len(pixels) != 2 or not all(type(count) is int and 1 <= count <= 1000 for count in pixels):
        raise InvalidInput(
            f"The size of a picture must be two numbers from 1 to 1000, height and width, but is {pixels!r}; write 8x8."
        )
    return pixels[0], pixels[1]


def without_columns(table: Any, names: Sequence[str]) -> Any:
    """Return a table without some columns, as far as it has them."""
    return table.drop_columns([name for name in names if name in table.column_names])


def check_show(show: Any) -> bool:
    """Return whether settings from a file say how rows are shown in a way that observal writes.

    Examples
    --------
    >>> check_show(None), check_show({"images": 3})
    (True, False)
    """
    if show is None:
        return True
    if not isinstance(show, dict) or set(show) != {"images", "image_column", "pixels"}:
        return False
    texts = (show["images"], show["image_column"])
    pixels = show["pixels"]
    whole = pixels is None or (isinstance(pixels, list) and len(pixels) == 2 and all(type(n) is int for n in pixels))
    return whole and all(text is None or isinstance(text, str) for text in texts)
