"""What columns mean, in the words of the people who made them: for those who label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from observal.errors import InvalidInput
from observal.tables.read import read_table


def read_column_help(path: str | Path, columns: Sequence[str]) -> dict[str, str]:
    r"""Return what each column means, from a table with a column of names and one of descriptions, or with the descriptions in its first row.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "help.csv"
    >>> _ = file.write_text("column,meaning\nincome,euros in a month\n")
    >>> read_column_help(file, ["income", "age"])
    {'income': 'euros in a month'}
    >>> _ = file.write_text("income,age\neuros in a month,in years\n")
    >>> read_column_help(file, ["income", "age"])
    {'income': 'euros in a month', 'age': 'in years'}
    """
    table = read_table(path, None)
    known = set(columns)
    if table.num_rows == 1 and known.intersection(table.column_names):
        texts = {name: table.column(name)[0].as_py() for name in table.column_names}
    elif table.num_columns >= 2:
        texts = dict(zip(*(table.column(k).to_pylist() for k in (0, 1)), strict=True))
    else:
        raise InvalidInput(
            f"{Path(path).name} must have two columns, names and descriptions, or your columns with one row of descriptions, but has "
            f"the columns {table.column_names}; write it in one of these ways."
        )
    found = {str(name): str(text) for name, text in texts.items() if text is not None and str(name) in known}
    if not found:
        raise InvalidInput(
            f"{Path(path).name} describes none of the columns {', '.join(columns)}; its first column must have their names."
        )
    return found
