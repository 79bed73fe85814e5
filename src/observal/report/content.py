"""The content of a report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from observal.diagnosis.diagnose import Diagnosis, check_feature_names
from observal.diagnosis.feature_values import source_of
from observal.problem.data import LoggedData, Pool
from observal.problem.goals import Goals
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.problem import Problem
from observal.problem.result import RunResult
from observal.problem.words import day_words, number
from observal.report.comparison import Comparison
from observal.report.inspection import Group
from observal.report.verdict import Measure, measures_of


@dataclass(frozen=True, eq=False)
class ReportContent:
    """Everything that a report shows.

    Parameters
    ----------
    title : str
        The heading of the page.
    logged, pool : LoggedData, Pool
        The data of the run.
    result : RunResult
        The result of the run.
    diagnosis : Diagnosis, optional
        From ``observal.diagnosis.diagnose``.
    feature_names : sequence of str, optional
        One name for each feature; ``x0``, ``x1``, … by default.
    date_features : collection of str
        The names of features that are dates, in days since 1970-01-01; they are shown as dates.
    percent_features : collection of str
        The names of features that the table has in percent; they are shown in percent.
    settings, versions : mapping
        Names and values, shown as tables.
    random_state : int, optional
        The seed of the run.
    command : str
        The command that makes the report.
    notes : sequence of str
        Sentences on how the data were read.
    intervals : mapping
        Further intervals, or replacements for the result's own: from a name such as "precision" to an ``Interval``, or None
        if it could not be estimated.
    error_history : sequence of (labels, Interval)
        The estimated error after some rounds, the log alone first.
    objective_history : sequence of (labels, Interval)
        The same for what the objective is about, if that is not the error.
    before : mapping
        Intervals with the log alone, by name: what the objective is about. By default the error of the first round in `error_history`.
    annotators : sequence of mappings, optional
        One mapping for each person, all with the same keys.
    goals : Goals
        What the intervals are about, and at which rounds they hold.
    author : str
        Who made the report.
    made : str
        The date, in words; if it is empty, equal content gives an equal file.
    files : sequence of str
        The names of the data files.
    next_step : str
        What to do next.
    next_if_buy : str
        What to do next instead, if the decision is to buy more labels.
    to_gain : float, optional
        By how much 50 more labels may lower the error.
    judged : JudgedRows, optional
        Labelled rows as fits that have not seen them judge them.
    comparison : Comparison, optional
        The errors of ordinary models on the same labels.
    named_groups : sequence of groups
        Groups of the judged rows that the user wants to see: each in words, with which rows are inside.
    sources : sequence of str, optional
        The column of the table that each feature comes from; taken from the features' names by default.
    uncounted, waiting : int, str
        How many labels are stored besides those of the result, and why they do not count yet; then nothing is decided.
    """

    title: str
    logged: LoggedData
    pool: Pool
    result: RunResult
    diagnosis: Diagnosis | None = None
    feature_names: Sequence[str] | None = None
    date_features: Collection[str] = ()
    percent_features: Collection[str] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    random_state: int | None = None
    command: str = ""
    notes: Sequence[str] = ()
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)
    error_history: Sequence[tuple[int, Interval]] = ()
    objective_history: Sequence[tuple[int, Interval]] = ()
    before: Mapping[str, Interval] = field(default_factory=dict)
    annotators: Sequence[Mapping[str, object]] | None = None
    goals: Goals = field(default_factory=Goals)
    author: str = ""
    made: str = ""
    files: Sequence[str] = ()
    next_step: str = ""
    next_if_buy: str = ""
    to_gain: float | None = None
    judged: JudgedRows | None = None
    comparison: Comparison | None = None
    named_groups: Sequence[Group] = ()
    sources: Sequence[str] | None = None
    uncounted: int = 0
    waiting: str = ""

    def __post_init__(self) -> None:
        problem = Problem(self.logged, self.pool)
        problem.require_numbers("A report", "make the log and the pool with observal.load_problem")
        object.__setattr__(self, "pool", problem.pool)
        check_feature_names(self.feature_names, self.logged.X.shape[1])

    @property
    def classes(self) -> list[Any]:
        """The label values, the positive one last."""
        return list(self.logged.classes.tolist())

    @cached_property
    def is_given(self) -> bool:
        """Whether nobody knows propensities: see ``observal.problem.given``."""
        return Problem(self.logged, self.pool).is_given

    @property
    def log(self) -> str:
        """What was there before any label was bought, in words: one table has no log."""
        return "the given labels" if self.goals.population == "table" else "the log"

    @cached_property
    def names(self) -> list[str]:
        """The features' names."""
        return check_feature_names(self.feature_names, self.logged.X.shape[1])

    @cached_property
    def columns(self) -> Sequence[str]:
        """The column of the table that each feature comes from."""
        return [source_of(name) for name in self.names] if self.sources is None else self.sources

    def value_words(self, name: str, value: float) -> str:
        """Return a feature's value as people write it: a date, in percent, or a number."""
        if name in self.date_features:
            return day_words(value)
        return f"{number(100.0 * value)}%" if name in self.percent_features else number(value)

    @property
    def error(self) -> Interval:
        """The interval for the error on the population."""
        return self.intervals.get("error") or self.result.error_interval

    @cached_property
    def all_intervals(self) -> dict[str, Interval]:
        """The result's intervals and the further ones, the error first, without those that could not be estimated."""
        others = {**self.result.intervals, **self.intervals}
        return {"error": self.error} | {
            name: interval for name, interval in others.items() if interval is not None and name != "error"
        }

    @cached_property
    def measures(self) -> list[Measure]:
        """The intervals of the classifier's measures, the error first."""
        return measures_of(self.all_intervals, self.classes, self.goals.objective)
