"""A model's predictions for a table of new rows, as another table: Parquet is read and written in parts, so any size fits into memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.files import check_target, writing
from observal.intervals.thresholds import FactorClassifier, ThresholdClassifier
from observal.learners.blend import Blend
from observal.parquet.parts import Parts
from observal.parquet.row_groups import PARQUET, schema_of
from observal.tables.read import is_several_files, read_as_written
from observal.tables.spreadsheets import csv_block, csv_text
from observal.tables.table_format import TableFormat, reading_of

if TYPE_CHECKING:
    import pyarrow as pa
    from sklearn.pipeline import Pipeline

    from observal.tables.encoder import TableEncoder

ROWS_AT_ONCE = 1 << 16  # rows that are encoded, predicted and written together: four blocks, which threads share
DECIMALS = 6  # of probabilities in CSV; Parquet has all digits


@dataclass(frozen=True)
class ScoredTable:
    """A table that was scored: the file, its rows, how many of them are predicted to be of each class, and the columns that were added."""

    path: Path
    rows: int
    predicted: Mapping[Any, int]
    columns: tuple[str, ...]


def score_table(
    model: Pipeline,
    table: str | os.PathLike[str],
    out: str | os.PathLike[str],
    keep: Sequence[str] | None = None,
    *,
    options: TableFormat | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ScoredTable:
    """Write what a model says of each row of a table to a CSV or Parquet file.

    The rows keep their order. Columns: those to keep, ``prediction``, ``probability of …`` (with two classes the second, otherwise each), and
    for a model with an objective ``flag``, which says whether the row is at or above its threshold.

    Parameters
    ----------
    model : pipeline
        From ``load_model``.
    table : path
        Whatever ``read_table`` takes as a path. Parquet, also a folder, is read a part at a time.
    out : path
        The file to write, ``.csv`` or ``.parquet``.
    keep : sequence of str, optional
        Columns of the table to copy, by default those that the model does not use, such as an id. From CSV to CSV they stay as they are written.
    options : TableFormat, optional
        How a CSV file is written, where that is not to be detected.
    force : bool
        Whether to replace a file.
    progress : callable, optional
        Called with the rows that are done, and all rows.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, observal as ob, pandas as pd
    >>> from observal.exchange.estimator import make_model
    >>> folder, log = tempfile.mkdtemp(), pd.DataFrame({"age": np.arange(80.0)})
    >>> encoder = ob.TableEncoder.learn([log])
    >>> fit = ob.LoggedClassifier().fit(encoder.encode(log), np.where(log["age"] > 30, "yes", "no"))
    >>> pd.DataFrame({"loan": ["007", "008"], "age": [70, 3]}).to_csv(folder + "/new.csv", index=False)
    >>> score_table(make_model(fit, encoder), folder + "/new.csv", folder + "/scored.csv").predicted
    {'no': 1, 'yes': 1}
    >>> pd.read_csv(folder + "/scored.csv", dtype=str)[["loan", "prediction"]].values.tolist()
    [['007', 'yes'], ['008', 'no']]
    """
    target = check_target(os.fspath(out), force)
    is_csv = target.suffix.lower() == ".csv"
    if not is_csv and not target.name.lower().endswith(PARQUET):
        raise InvalidInput(f"The scored table must be a .csv or .parquet file, but is {str(target)!r}; rename it.")
    scorer = _Scorer.of(model)
    source = _open_source(table, scorer.encoder, keep, options or TableFormat())
    _check_names(source.kept, scorer.columns)
    counts = np.zeros(scorer.classes.size, dtype=np.int64)

    def score_blocks() -> Iterator[pa.Table]:
        import pyarrow as pa

        for block in source.blocks:
            codes, columns = scorer.score(block, DECIMALS if is_csv else None)
            counts[:] += np.bincount(codes, minlength=counts.size)
            kept = block.select(source.kept).cast(source.schema)
            yield pa.table([*kept.columns, *columns], names=[*source.kept, *scorer.columns])
            if progress is not None:
                progress(int(counts.sum()), source.rows)

    with writing(target, force) as file:
        if is_csv:
            _write_csv(file, [*source.kept, *scorer.columns], score_blocks(), source.format)
        else:
            _write_parquet(file, score_blocks())
    predicted = dict(zip(scorer.classes.tolist(), counts.tolist(), strict=True))
    return ScoredTable(target, int(counts.sum()), predicted, scorer.columns)


# -- the model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scorer:
    """A classifier and the encoder of its tables."""

    classifier: Any
    encoder: TableEncoder

    @classmethod
    def of(cls, model: Pipeline) -> _Scorer:
        """Take a model apart; refuse one that was fitted on arrays."""
        if "table" not in model.named_steps:
            raise InvalidInput(
                "This model was fitted on arrays, which have no column names, so it cannot read a table; call its predict_proba in Python."
            )
        return cls(model[-1].classifier, model.named_steps["table"].encoder)

    @property
    def classes(self) -> NDArray[Any]:
        """The label values, the positive one last."""
        return np.asarray(self.classifier.classes_)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that scoring adds."""
        shown = self.classes[1:] if self.classes.size == 2 else self.classes
        chances = [f"probability of {label}" for label in shown.tolist()]
        has_chances = getattr(self.classifier, "predict_proba", None) is not None
        flag = ["flag"] if isinstance(self.classifier, ThresholdClassifier) else []
        return ("prediction", *(chances if has_chances else ()), *flag)

    def score(self, block: pa.Table, decimals: int | None) -> tuple[Ints, list[pa.Array]]:
        """Return the class of each row, as a place in `classes`, and the columns to add."""
        import pyarrow as pa

        codes, chances = predict_codes(self.classifier, self.encoder.encode(block))
        arrays = [pa.array(self.classes.tolist()).take(pa.array(codes))]
        if chances is not None:
            rounded = chances if decimals is None else chances.round(decimals)
            arrays += [pa.array(rounded[:, code]) for code in range(int(self.classes.size == 2), self.classes.size)]
        if isinstance(self.classifier, ThresholdClassifier):
            arrays.append(pa.array(codes == 1))
        return codes, arrays


def predict_codes(classifier: Any, X: Floats) -> tuple[Ints, Floats | None]:
    """Return the class of each row, as a place in the classes, and chances where the classifier has them."""
    chances = classifier.predict_proba(X) if getattr(classifier, "predict_proba", None) is not None else None
    if (
        isinstance(classifier, ThresholdClassifier) and chances is not None
    ):  # as its own predict does, which would compute them again
        return (chances[:, 1] >= classifier.threshold).astype(np.int64), chances
    if isinstance(classifier, Blend | FactorClassifier) and chances is not None:
        factors = classifier.factors if isinstance(classifier, FactorClassifier) else 1.0
        return (chances * factors).argmax(axis=1), chances
    places = {label: code for code, label in enumerate(classifier.classes_.tolist())}
    return np.array([places[label] for label in classifier.predict(X).tolist()], dtype=np.int64), chances


# -- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A table to score: how many rows, the columns to keep and their types, blocks of rows, and how it is written."""

    rows: int
    kept: list[str]
    schema: pa.Schema
    blocks: Iterator[pa.Table]
    format: TableFormat


def _open_source(
    path: str | os.PathLike[str], encoder: TableEncoder, keep: Sequence[str] | None, options: TableFormat
) -> _Source:
    """Open a table; Parquet stays in its files."""
    name = os.fspath(path)
    if "://" in name or is_several_files(Path(name)) or name.lower().endswith(PARQUET):
        return _open_parquet(name, encoder, keep)
    table = encoder.read(path, options)
    encoder.require_columns(table.column_names)
    if not table.num_rows:
        raise InvalidInput(f"File {name!r} has no rows to score; give a table with rows.")
    kept = _choose_kept(table.column_names, encoder, keep)
    as_written = read_as_written(path, kept, options)
    for column in as_written.column_names:
        table = table.set_column(table.column_names.index(column), column, as_written.column(column))
    blocks = (table.slice(begin, ROWS_AT_ONCE) for begin in range(0, table.num_rows, ROWS_AT_ONCE))
    return _Source(table.num_rows, kept, table.select(kept).schema, blocks, reading_of(table).format)


def _open_parquet(name: str, encoder: TableEncoder, keep: Sequence[str] | None) -> _Source:
    import pyarrow as pa

    parts = Parts.of(name, [])
    encoder.require_columns(parts.names)
    kept = _choose_kept(parts.names, encoder, keep)
    parts.require_columns("The table", kept)
    schemas = [schema_of(part) for part in {part.path: part for part in parts.parts}.values()]
    schema = pa.unify_schemas(
        [pa.schema([schema.field(name) for name in kept]) for schema in schemas], promote_options="permissive"
    )
    wanted = list(dict.fromkeys([*kept, *(rule.source for rule in encoder.rules)]))
    tables = (table for k in range(len(parts.parts)) for table in parts.tables(k, wanted))
    return _Source(len(parts), kept, schema, _in_large_blocks(tables), TableFormat())


def _in_large_blocks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield small tables put together, so that threads have something to share."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(part.num_rows for part in waiting) >= ROWS_AT_ONCE:
            yield pa.concat_tables(waiting, promote_options="permissive")
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting, promote_options="permissive")


def _choose_kept(names: Sequence[str], encoder: TableEncoder, keep: Sequence[str] | None) -> list[str]:
    """Return the columns to copy: those that the user names, or those that the model does not use."""
    if keep is None:
        used = {rule.source for rule in encoder.rules}
        return [name for name in names if name not in used]
    for name in keep:
        if name not in names:
            raise InvalidInput(
                f"The table has no column {name!r} to keep, its columns are {list(names)}; choose from these."
            )
    return list(dict.fromkeys(keep))


def _check_names(kept: Sequence[str], added: Sequence[str]) -> None:
    both = next((name for name in added if name in kept), None)
    if both is not None:
        raise InvalidInput(
            f"The table already has a column {both!r}, which the scored table needs for the model's own; name the columns to copy "
            "without it (--keep, keep=)."
        )


# -- the file --------------------------------------------------------------------------------------------------------


def _write_csv(file: BinaryIO, names: Sequence[str], blocks: Iterable[pa.Table], like: TableFormat) -> None:
    """Write a table with the separators of the user's own."""
    sep = like.sep if like.sep in (";", "\t") else ","
    decimal = "," if like.decimal == "," and sep != "," else "."
    file.write(csv_text([names], sep).encode())
    for block in blocks:
        file.write(csv_block(block, sep, decimal))


def _write_parquet(file: BinaryIO, blocks: Iterator[pa.Table]) -> None:
    import pyarrow.parquet as pq

    first = next(blocks)
    with pq.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block)
