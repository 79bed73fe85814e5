"""Whether new data still looks like the population, how the model scores it, and whether the model is still right."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from observal.checks import Floats, Ints
from observal.diagnosis.drift import Drift, compare_rows
from observal.diagnosis.feature_values import MAX_ROWS, sample_rows
from observal.errors import InvalidInput
from observal.exchange.scored_table import predict_codes
from observal.intervals.sample import sample_interval
from observal.journal.ledger import Sample
from observal.parquet.parts import Parts
from observal.parquet.row_groups import PARQUET
from observal.problem.interval import Interval
from observal.problem.problem import Problem
from observal.problem.rows import stack_rows, to_dense
from observal.problem.words import count, percent
from observal.tables.encoder import TableEncoder
from observal.tables.read import is_several_files, read_as_written
from observal.tables.table_format import TableFormat

if TYPE_CHECKING:
    import pyarrow as pa

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
UNSURE = 0.7  # a row is counted as unsure where no class is likelier than this


@dataclass(frozen=True)
class Spread:
    """How a model's predictions are spread over rows.

    Parameters
    ----------
    shares : tuple of float
        The share of rows predicted to be of each class.
    unsure : float, optional
        The share of rows in which no class is likelier than 70 %.
    quantiles : tuple of float
        Of the probability of the positive class, for two classes: 5, 25, 50, 75 and 95 %.
    """

    shares: tuple[float, ...]
    unsure: float | None = None
    quantiles: tuple[float, ...] = ()

    @classmethod
    def of(cls, codes: Ints, chances: Floats | None, n_classes: int) -> Spread:
        """Describe the predictions for some rows.

        Examples
        --------
        >>> import numpy as np
        >>> Spread.of(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.0, 1.0]]), 2).shares[1].__round__(2)
        0.67
        """
        shares = tuple((np.bincount(codes, minlength=n_classes) / max(1, codes.size)).tolist())
        if chances is None:
            return cls(shares)
        unsure = float(np.mean(chances.max(axis=1) < UNSURE))
        quantiles = tuple(np.quantile(chances[:, 1], QUANTILES).tolist()) if n_classes == 2 else ()
        return cls(shares, unsure, quantiles)


@dataclass(frozen=True)
class Monitoring:
    """What a new table looks like beside the population of a campaign.

    Parameters
    ----------
    table : str
        The name of the table.
    rows : int
        How many rows it has.
    drift : Drift
        Whether its rows differ from those of log and pool by more than chance.
    then, now : Spread
        The model's predictions for the population, and for the table.
    classes : tuple
        The label values, the positive one last.
    """

    table: str
    rows: int
    drift: Drift
    then: Spread
    now: Spread
    classes: tuple[Any, ...]

    def sentences(self) -> tuple[str, ...]:
        """Return the findings in words."""
        if not self.drift.checked:
            first = f"{self.table} has too few rows to tell whether they come from the population that the model was trained for."
            return (first,)
        evidence = self.drift.evidence("new rows from those of log and pool")
        if not self.drift.found:
            limit = f"{self.drift.rows_compared:,} rows may be too few to detect rows that differ by less than {self.drift.least_shift:.2f} standard deviations in a feature."
            return (
                f"The rows of {self.table} look like the population: {evidence}.",
                *([limit] if self.drift.least_shift is not None else []),
            )
        means = f" Of the new rows, {self.drift.means}." if self.drift.means else " No single feature's mean shows it."
        return (
            f"The rows of {self.table} differ from the population: {evidence}.{means}",
            "The campaign's interval for the error then does not hold for them; check the error on rows drawn from them.",
        )

    def table_rows(self) -> list[tuple[str, str, str]]:
        """Return how predictions are spread, for a table: what, in the population, in the new rows."""
        pairs = zip(self.classes, self.then.shares, self.now.shares, strict=True)
        rows = [(f"predicted {label}", percent(then), percent(now)) for label, then, now in pairs]
        if self.then.unsure is not None and self.now.unsure is not None:
            rows.append((f"no class above {percent(UNSURE)}", percent(self.then.unsure), percent(self.now.unsure)))
        for level, then, now in zip(QUANTILES, self.then.quantiles, self.now.quantiles, strict=False):
            rows.append(
                (f"probability of {self.classes[1]}, {percent(level)} of rows below", f"{then:.2f}", f"{now:.2f}")
            )
        return rows


class NewTable:
    """A table of new rows, of which some are read: Parquet stays in its files.

    `path` is whatever `observal predict` takes. Without the column of ids, rows are numbered from 1.
    """

    def __init__(self, path: str | os.PathLike[str], encoder: TableEncoder, id_: str) -> None:
        name = os.fspath(path)
        self.name, self.encoder, self.id = Path(name).name, encoder, id_
        self._parts: Parts | None = None
        if "://" in name or is_several_files(Path(name)) or name.lower().endswith(PARQUET):
            self._parts = Parts.of(name, [])
            self.n_rows, self.column_names = len(self._parts), list(self._parts.names)
        else:
            table = encoder.read(path)
            if id_ in table.column_names:
                written = read_as_written(path, [id_], TableFormat())
                for column in written.column_names:
                    table = table.set_column(table.column_names.index(column), column, written.column(column))
            self._table, self.n_rows, self.column_names = table, table.num_rows, table.column_names
        encoder.require_columns(self.column_names)
        if not self.n_rows:
            raise InvalidInput(f"File {name!r} has no rows; give a table with rows.")

    def take(self, positions: Ints) -> pa.Table:
        """Return some rows as they are in the table."""
        if self._parts is not None:
            return self._parts.raw_rows(positions.tolist(), self.column_names)
        return self._table.take(positions)

    def ids(self, rows: pa.Table, positions: Ints) -> list[str]:
        """Return the ids of rows that were taken, as text, or their numbers from 1; refuse ids that are not all different."""
        if self.id not in self.column_names:
            return [str(position + 1) for position in positions.tolist()]
        ids = ["" if value is None else str(value) for value in rows.column(self.id).to_pylist()]
        if len(set(ids)) < len(ids) or "" in ids:
            raise InvalidInput(
                f"Rows to check need unique ids, but in column {self.id!r} of {self.name} some are missing or occur twice; correct them, or leave the column out."
            )
        return ids


def monitor(problem: Problem, classifier: Any, names: Sequence[str], new: NewTable, seed: int) -> Monitoring:
    """Compare the rows of a new table with log and pool; at most 20,000 of each are looked at."""
    rng = np.random.default_rng([seed, new.n_rows])
    begin, end = problem.counted
    then = to_dense(problem.take(begin + sample_rows(end - begin, MAX_ROWS, rng)))
    now = new.encoder.encode(new.take(sample_rows(new.n_rows, MAX_ROWS, rng)))
    drift = compare_rows(stack_rows(then, now), then.shape[0], names, rng)
    classes = tuple(classifier.classes_.tolist())
    of_then, of_now = (Spread.of(*predict_codes(classifier, X), len(classes)) for X in (then, now))
    return Monitoring(new.name, new.n_rows, drift, of_then, of_now, classes)


def draw_rows(new: NewTable, n: int, seed: int, number: int) -> tuple[Ints, pa.Table]:
    """Return the positions of `n` rows of a table, drawn at random, and the rows; `number` is which draw of the campaign it is."""
    if n > new.n_rows:
        raise InvalidInput(f"{new.name} has {count(new.n_rows, 'row')}, but {n} were to be drawn; draw fewer.")
    positions = np.random.default_rng([seed, new.n_rows, number]).choice(new.n_rows, n, replace=False)
    return positions, new.take(positions)


def error_of_sample(sample: Sample) -> Interval:
    """Return the interval for the error on the table that a sample was drawn from."""
    return sample_interval(sample.wrong, sample.unknown, len(sample.ids))


def sample_sentences(sample: Sample, promised: Interval | None) -> tuple[str, ...]:
    """Return what a sample says about the error, in words, beside what the campaign promises."""
    error, drawn, verb = error_of_sample(sample), len(sample.ids), "is" if sample.wrong == 1 else "are"
    missing = f", and {sample.unknown} without a label, which may be right or wrong" if sample.unknown else ""
    first = (
        f"Of {drawn} rows drawn from the {sample.rows:,} of {sample.table}, {sample.wrong} {verb} predicted wrong{missing}: the error is between "
        f"{error.low:.1%} and {error.high:.1%} there, with {percent(error.confidence)} confidence."
    )
    if promised is None:
        return (first,)
    range_ = f"between {promised.low:.1%} and {promised.high:.1%}"
    if error.low > promised.high:
        return (
            first,
            f"That is more than the campaign found ({range_}): do not rely on the model for these rows; buy labels for some of them.",
        )
    if error.high < promised.low:
        return (first, f"That is less than the campaign found ({range_}).")
    return (first, f"That does not contradict what the campaign found ({range_}).")
