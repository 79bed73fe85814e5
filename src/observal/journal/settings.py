"""The settings of a session or campaign, stored in the journal's first event."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from observal.checks import check_number, check_whole, keep
from observal.diagnosis.drift import strong_shift
from observal.diagnosis.rare_class import label_counts, rare_class_notes, typo_sentences
from observal.errors import InvalidInput
from observal.methods import Method, MethodLike, as_method
from observal.problem.column_groups import ColumnGroups
from observal.problem.goals import Goals, Looks
from observal.problem.objectives import canonical, is_about_last
from observal.problem.problem import Problem
from observal.problem.words import WARNING
from observal.tables.encoder import TableEncoder
from observal.tables.more_rows import PropensityOrigin
from observal.tables.table_format import TableFormat

if TYPE_CHECKING:
    from observal.journal.campaign_tables import CampaignTables

ANYONE = "anyone"
"""The annotator if no name is given."""
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Display:
    """How the labelling page shows rows.

    Parameters
    ----------
    images : str, optional
        The folder of the paths in `image_column`; without it that column holds images in base64.
    image_column : str, optional
        The column of images.
    pixels : (int, int), optional
        Height and width of a picture whose pixels are columns of numbers.
    instructions : str
        What people are told to do, in Markdown.
    column_help : mapping
        What columns mean, by name.

    Examples
    --------
    >>> Display(image_column="scan").images is None
    True
    """

    images: str | None = None
    image_column: str | None = None
    pixels: tuple[int, int] | None = None
    instructions: str = ""
    column_help: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.images is not None and self.image_column is None:
            raise InvalidInput(
                "A folder of images needs the column with their paths; name it with --image-column (image_column=)."
            )
        if self.pixels is None:
            return
        keep(self, pixels=tuple(self.pixels))
        if len(self.pixels) != 2 or not all(type(count) is int and 1 <= count <= 1000 for count in self.pixels):
            raise InvalidInput(
                f"The size of a picture must be two numbers from 1 to 1000, height and width, but is {self.pixels!r}; write 8x8."
            )

    @property
    def folder(self) -> Path | None:
        """The folder of images."""
        return None if self.images is None else Path(self.images)


@dataclass(frozen=True)
class StoredArray:
    """How a database stores an array: its dtype and shape, and whether its chunks are packed."""

    dtype: str
    shape: tuple[int, ...]
    packed: bool = False


@dataclass(frozen=True)
class Settings:
    """The settings of a session or campaign, including later extensions.

    Parameters
    ----------
    method : Method
        How rows are chosen.
    goals : Goals
        Whose error is measured, and when to stop.
    label_budget : int, optional
        How many labels may be bought.
    random_state : int
        Seed of all random numbers.
    overlap : int
        How many annotators label each row.
    classes : tuple
        The label values.
    id, label : str
        Names of the columns with ids and labels.
    features : tuple of str
        Names of the features, as encoded.
    log_rows, revealed, pool_rows : int
        Rows of the log, how many of them have a label, and rows of the pool.
    notes : tuple of str
        What was noticed when it was made, in sentences.
    column_groups : ColumnGroups, optional
        Which features came from one column of a table.
    encoder : TableEncoder, optional
        How tables become features; None if it was made from arrays.
    propensities : PropensityOrigin
        Where the pool's propensities came from, if it was made from tables.
    cost : str, optional
        The column with the cost of mistakes.
    group : str, optional
        The column that related rows share.
    known_before : tuple of str
        Columns known before the label is.
    excluded : tuple of str
        Columns hidden from the model and from annotators.
    files : tuple of str
        Names of the files it was made from.
    in_place : bool
        Whether the tables stay in their Parquet files.
    display : Display
        How the labelling page shows rows.
    arrays : mapping
        How a database stores log and pool; empty in memory.
    price : str, optional
        The column with the cost of labels.
    budget_cost : float, optional
        What all labels together may cost.
    named : bool
        Whether `features` are the columns of tables; those of arrays are only numbered.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> session = ob.Session(ob.LoggedData(X, X[:, 0] > 0, 0.5), ob.Pool(X, 0.5), label_budget=5)
    >>> session.settings.pool_rows, session.settings.goals.population, session.settings.classes
    (40, 'both', (False, True))
    """

    method: Method[Any]
    goals: Goals
    label_budget: int | None
    random_state: int
    overlap: int
    classes: tuple[Any, ...]
    id: str
    label: str
    features: tuple[str, ...]
    log_rows: int
    revealed: int
    pool_rows: int
    notes: tuple[str, ...] = ()
    column_groups: ColumnGroups | None = None
    encoder: TableEncoder | None = None
    propensities: PropensityOrigin = field(default_factory=PropensityOrigin)
    cost: str | None = None
    group: str | None = None
    known_before: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    in_place: bool = False
    display: Display = field(default_factory=Display)
    arrays: Mapping[str, StoredArray] = field(default_factory=dict)
    price: str | None = None
    budget_cost: float | None = None
    named: bool = False

    def __post_init__(self) -> None:
        if self.budget_cost is not None:
            keep(self, budget_cost=check_number(self.budget_cost, "budget_cost", 0.0))
        for name, least in (("overlap", 1), ("random_state", 0), ("label_budget", 0)):
            if name != "label_budget" or self.label_budget is not None:
                check_whole(getattr(self, name), name, least)
                keep(self, **{name: int(getattr(self, name))})  # JSON cannot hold NumPy integers
        if min(self.log_rows, self.pool_rows) < 1 or self.revealed < 0 or len(self.classes) < 2:
            raise InvalidInput(
                "A campaign needs rows and at least two classes, but has too few; use an undamaged copy."
            )
        if self.column_groups is not None and self.column_groups.n_columns > len(self.features):
            raise InvalidInput("A group names a column that does not exist; use an undamaged copy.")

    @property
    def format(self) -> TableFormat | None:
        """How the tables are written; None if it was made from arrays."""
        return None if self.encoder is None else self.encoder.format

    @property
    def is_given(self) -> bool:
        """Whether nobody knows propensities: see ``observal.problem.given``."""
        return self.propensities.number == 0.0 and self.log_rows == self.revealed

    @property
    def hidden_columns(self) -> frozenset[str]:
        """Columns of the pool that annotators do not see.

        These are labels; propensities, because the old policy's view would sway people; and excluded columns,
        which may give the label away. An image column is always shown.
        """
        return frozenset((self.label, *self.propensities.columns, *self.excluded)) - {self.display.image_column}

    def extend(self, payload: Mapping[str, Any]) -> Settings:
        """Return the settings after an event that raised a budget or added pool rows.

        If rounds were planned for another budget, or for a pool smaller than the budget, their looks were not
        planned either: people may have raised it because of what they saw. Intervals then hold at all rounds,
        however many follow.
        """
        raised = "label_budget" in payload or "budget_cost" in payload
        unplanned = raised or self.label_budget is None or self.label_budget > self.pool_rows
        return replace(
            self,
            label_budget=payload.get("label_budget", self.label_budget),
            budget_cost=payload.get("budget_cost", self.budget_cost),
            pool_rows=payload.get("pool_rows", self.pool_rows),
            arrays=payload.get("arrays", self.arrays),
            goals=self.goals.for_all_rounds() if unplanned else self.goals,
        )


class GivenGoals(NamedTuple):
    """Goals as ``observal.Session`` takes them: the population may be unset, and an objective may be costs by class."""

    population: str | None
    looks: Looks
    tolerance: float | None
    width: float | None
    objective: str | Mapping[Any, float | str]


def make_settings(
    problem: Problem,
    method: MethodLike,
    given: GivenGoals,
    label_budget: int | None,
    random_state: int,
    overlap: int,
    budget_cost: float | None,
    tables: CampaignTables | None = None,
) -> Settings:
    """Return the settings of a new session or campaign; `tables` are the sources of log and pool, if any."""
    method = as_method(method)
    logged, pool = problem.logged, problem.pool
    classes = logged.classes.tolist()
    objective = canonical(given.objective or "error", classes)
    if len(classes) > 2 and not logged.is_positive_named and is_about_last(objective, len(classes)):
        raise InvalidInput(
            f"The objective {objective!r} is about one class, but there are {len(classes)} ({', '.join(map(str, classes))}); "
            "name it with --positive (positive=), or for arrays put it last in classes=."
        )
    if objective != "error" and not method.follows_objective:
        raise InvalidInput(
            f"{type(method).__name__} can only aim for the fewest mistakes, but the objective is {objective!r}; "
            "use AutoVC or NewtonVC, or leave the objective out."
        )
    if budget_cost is not None and pool.price is None:
        raise InvalidInput(
            f"A budget of {budget_cost:g} for the cost of labels needs the price of each, but the pool has none; name the column with "
            "--price (price=), or give the number of labels with --budget (label_budget=)."
        )
    names = problem.names if tables is None else tables.encoder.names
    features = names or pool.rows.feature_names
    notes = () if tables is None else tables.notes
    population = given.population
    if population is None:
        population, note = _choose_population(problem, features)
        notes = (*notes, *note)
    if objective == "error" and method.follows_objective:
        notes = (*rare_class_notes(logged), *notes)  # first, because only a few warnings are shown
    notes = (*(f"{WARNING}{sentence}" for sentence in typo_sentences(label_counts(logged))), *notes)
    goals = Goals(population, given.looks, given.tolerance, given.width, objective)
    settings = Settings(
        method,
        goals.for_all_rounds() if label_budget is None else goals,
        label_budget,
        random_state,
        overlap,
        tuple(classes),
        id="row" if "id" in features else "id",
        label="label",
        features=tuple(features),
        log_rows=len(logged),
        revealed=int(logged.revealed.sum()),
        pool_rows=len(pool),
        propensities=PropensityOrigin(number=0.0 if problem.is_given else None),
        notes=tuple(notes),
        column_groups=problem.column_groups,
        budget_cost=budget_cost,
        named=names is not None,
    )
    if tables is None:
        return settings
    return replace(
        settings,
        id=tables.id,
        label=tables.label,
        encoder=tables.encoder,
        propensities=tables.propensities,
        cost=tables.cost,
        group=tables.group,
        known_before=tables.known_before,
        excluded=tables.excluded,
        files=tables.files,
        in_place=tables.rows is None,
        display=tables.display,
        price=tables.price,
    )


def _choose_population(problem: Problem, names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the default population: log and pool together, but the pool alone if they differ much."""
    shift = strong_shift(problem)
    if shift is None:
        return "both", []
    feature, by = shift
    higher = "higher" if by > 0 else "lower"
    return "pool", [
        f"Log and pool differ: {names[feature]} is {abs(by):.2f} standard deviations {higher} in the pool. Intervals are about the "
        "pool alone; give population='both' (--population both) if you want them to be about both."
    ]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results.

    Examples
    --------
    >>> "numpy" in versions()
    True
    """
    packages = ("observal", "numpy", "scipy", "scikit-learn", "lightgbm", "numba", "pyarrow", "sqlalchemy")
    return {"python": platform.python_version(), **{name: _version(name) for name in packages}}


def observal_version() -> str:
    """Return the version of observal.

    Examples
    --------
    >>> observal_version() == versions()["observal"]
    True
    """
    return _version("observal")


@cache
def _version(package: str) -> str:
    return importlib.metadata.version(package)  # reads and parses a file


def check_annotator(annotator: str, overlap: int) -> None:
    """Reject an annotator's name that is missing, too long or not printable.

    Examples
    --------
    >>> check_annotator("Ann", 2)
    """
    if not isinstance(annotator, str) or not annotator.strip() or not annotator.isprintable():
        raise InvalidInput(f"An annotator's name must be printable text, but is {annotator!r}; give a name.")
    if len(annotator) > _LONGEST_NAME:
        raise InvalidInput(
            f"An annotator's name may have at most {_LONGEST_NAME} characters, but has {len(annotator)}; give a shorter one."
        )
    if overlap > 1 and annotator == ANYONE:
        raise InvalidInput(
            f"Each row goes to {overlap} different people, but no name was given; "
            "give yours with --annotator NAME (annotator=)."
        )
