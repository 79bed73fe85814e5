"""Whether a log can be trusted, in words and numbers: ``diagnose`` and the record it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from math import isfinite
from textwrap import fill
from typing import Any, Literal, cast

import numpy as np

from observal.checks import Ints, check_number, check_whole
from observal.diagnosis.calibration_check import Calibration, check_calibration
from observal.diagnosis.confounding import Confounding, confound
from observal.diagnosis.decision_column import Decision, decision_sentence, find_decisions, repeats_decision
from observal.diagnosis.drift import Drift, find_drift
from observal.diagnosis.feature_values import sample_rows, source_of
from observal.diagnosis.given_coverage import GivenCoverage, find_given_coverage
from observal.diagnosis.leaks import Leak, find_leaks, leak_sentence
from observal.diagnosis.near_copies import NearCopies, find_near_copies
from observal.diagnosis.overlap import Overlap, find_overlap
from observal.diagnosis.propensity import keeps_labelled_only
from observal.diagnosis.rare_class import find_typos, label_counts, typo_sentences
from observal.diagnosis.weighting import Weighting, summarise_weights
from observal.errors import InvalidInput
from observal.paper.weights import plain_importance
from observal.problem.data import LoggedData, Pool
from observal.problem.given import arrange
from observal.problem.goals import POPULATIONS
from observal.problem.problem import Problem
from observal.problem.words import count, listed, number, percent
from observal.threads import one_thread

MAX_UNSEEN = 0.05  # unseen share of the population that rivals typical errors: no weighted estimate can be trusted
FEW_EFFECTIVE = 30.0  # effective labels; with fewer, a 95% interval for an error is wider than 0.3
FEW_OF_CLASS = 5
HEAVY_SHARE = 0.5  # share of all weight on one label in a hundred
MAX_LABELS = 2000  # revealed labels to fit classifiers on
WIDTH = 100
BEFORE = "Before you spend money"
MAX_CLASSES = 8  # listed with their labels
MAX_LINES = 5  # listed under that heading

UNTESTED = (
    "No test can show whether the old policy used something that was not recorded, or whether labels would be the "
    "same today."
)

HIDDEN_CAUSE = (
    "Nothing is assumed about why a label is there. If whoever decided saw something that is not in the tables, rows without a label may "
    "differ from labelled ones that look the same: so the given labels train the classifier, but say nothing about its mistakes on other "
    "rows. Bought labels do, whatever the cause was."
)

Level = Literal["good", "care", "buy"]


@dataclass(frozen=True, kw_only=True)
class Diagnosis(ABC):
    """How far a log can be trusted; either a ``RecordedDiagnosis`` or a ``GivenDiagnosis``.

    Parameters
    ----------
    n_logged, revealed, pool_rows : int
        Rows of the log, labels revealed among them, rows of the pool.
    drift, near_copies
        The findings, each with its numbers and ``sentences()``.
    class_counts : tuple of (class, labels)
        The number of labels of each class in the log.
    random_state : int
        The seed of all random draws.
    decisions : tuple of Decision
        Columns that tell which labels were revealed.
    leaks : tuple of Leak
        Columns that may leak the label.
    label : str
        The name of the label.
    """

    n_logged: int
    revealed: int
    pool_rows: int
    drift: Drift
    near_copies: NearCopies
    class_counts: tuple[tuple[str, int], ...]
    random_state: int
    decisions: tuple[Decision, ...] = ()
    leaks: tuple[Leak, ...] = ()
    label: str = ""

    @property
    @abstractmethod
    def level(self) -> Level:
        """The verdict: "good", "care" (read the warnings) or "buy" (weights cannot help: labels must be bought)."""

    @property
    @abstractmethod
    def verdict(self) -> str:
        """The finding in one or two sentences."""

    @property
    @abstractmethod
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on the log, most serious first."""

    @abstractmethod
    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return headings and their sentences; one that starts with a dash is a list item, see ``paragraphs``."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """How much data there is, in a sentence."""

    def _about_columns(self) -> tuple[str, ...]:
        """Return warnings about decision columns and possible leaks."""
        sentences = (decision_sentence(self.decisions),) if self.decisions else ()
        return (*sentences, leak_sentence(self.leaks, self.label)) if self.leaks else sentences

    def _about_classes(self) -> list[str]:
        """Return warnings about classes with too few labels."""
        typos = find_typos(self.class_counts)
        return [
            f"The log has only {count(n, 'label')} of class {label!r}, too few to learn from."
            for label, n in self.class_counts
            if n < FEW_OF_CLASS and label not in typos
        ]

    @property
    def serious(self) -> tuple[str, ...]:
        """The warnings that make buying labels a waste of money until something is changed."""
        return self._about_columns()

    def text(self, more_warnings: Sequence[str] = (), all_warnings: bool = False) -> str:
        """Return the diagnosis as plain text, with the first warnings or with all of them."""
        lines = [_fill(self.summary), "", _fill(self.verdict)]
        warnings = list(dict.fromkeys((*self.warnings, *more_warnings)))
        if warnings:
            lines += ["", BEFORE, *map(item, warnings if all_warnings else shorten(warnings))]
        for heading, sentences in self.sections():
            lines += ["", heading]
            for paragraph in paragraphs(sentences):
                if isinstance(paragraph, str):
                    lines.append(_fill(paragraph))
                else:
                    lines += [item(part) for part in paragraph]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON; infinity becomes None, and `n_logged` is ``rows_logged``."""
        fields = {"rows_logged" if name == "n_logged" else name: value for name, value in asdict(self).items()}
        for part in ("overlap", "coverage"):
            for region, source in (
                zip(fields[part]["regions"], getattr(self, part).regions, strict=True) if part in fields else ()
            ):
                region["words"] = source.words()
        values = _to_json({**fields, "level": self.level, "verdict": self.verdict, "warnings": self.warnings})
        return cast("dict[str, Any]", values)


@dataclass(frozen=True, kw_only=True)
class RecordedDiagnosis(Diagnosis):
    """How far a log with recorded propensities can be trusted for a pool.

    Parameters
    ----------
    n_logged_rows : float
        The rows that the old policy saw: `n_logged`, or an estimate if only labelled rows were kept.
    labelled_only : bool
        Whether the log kept only its labelled rows.
    overlap, weights, calibration, confounding
        The findings, each with its numbers and ``sentences()``.
    repeats_decision : bool
        Whether the propensities merely repeat a decision column, which makes everything computed from them meaningless.
    """

    n_logged_rows: float
    labelled_only: bool
    overlap: Overlap
    weights: Weighting
    calibration: Calibration
    confounding: Confounding
    repeats_decision: bool = False

    @property
    def level(self) -> Level:
        """The verdict in a word."""
        if self.repeats_decision or self.overlap.barely > MAX_UNSEEN or self.weights.effective < FEW_EFFECTIVE:
            return "buy"
        return "care" if self.warnings else "good"

    @property
    def verdict(self) -> str:
        """The finding in one or two sentences."""
        if self.repeats_decision:
            return f"{decision_sentence(self.decisions)} With it, every propensity is close to 0 or 1, so nothing else about the log can be checked."
        contradicted = self.calibration.cannot_be_right
        broken = (
            " The propensities contradict which labels were revealed: correct them or, if nobody recorded them, leave them out."
            if contradicted
            else ""
        )
        if self.overlap.barely > MAX_UNSEEN:
            where = f" {self.overlap.mostly}" if self.overlap.mostly else ""
            return (
                f"Importance weighting cannot help on {percent(self.overlap.barely)} of the rows: the log has almost no labels "
                f"there, and no weight makes up for a missing label. Buy labels there.{where}{broken}"
            )
        if self.weights.effective < FEW_EFFECTIVE:
            return (
                f"Importance weighting cannot help much: the {count(self.revealed, 'label')} of the log have an "
                f"effective sample size of only {number(self.weights.effective)}. Buy labels.{broken}"
            )
        if broken:
            return f"Do not rely on the weights yet.{broken}"
        if self.warnings:
            return f"The log covers the pool, and its labels can be weighted. Read the warnings before relying on it. {UNTESTED}"
        return f"The log covers the pool, and its labels can be weighted to represent it.{self._limits()} {UNTESTED}"

    def _limits(self) -> str:
        """Return the smallest detectable errors: a small log may look good only because it is small."""
        limits = [limit for limit in (self.calibration.limit, self.drift.limit) if limit]
        if not limits:
            return ""
        return (
            f" No problem was found, but {count(self.n_logged, 'row')} may be too few to detect {' or '.join(limits)}."
        )

    def _unchecked(self) -> str:
        """Return what could not be checked because there are too few rows."""
        of_propensities, of_drift = self.calibration.status == "too few rows", not self.drift.checked
        what = ["whether the propensities are right"] * of_propensities + [
            "whether log and pool come from the same population"
        ] * of_drift
        return f"There are too few rows to check {' and '.join(what)}."

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on the log, most serious first."""
        sentences = [*self._about_columns(), *typo_sentences(self.class_counts)]
        if self.repeats_decision:
            return tuple(sentences)
        if self.calibration.suspicious:
            sentences += self.calibration.sentences()
        if self.overlap.barely > MAX_UNSEEN:
            sentences.append(
                f"{self.overlap.sentences()[0]} An error estimate from the log says nothing about these rows."
            )
        if self.weights.effective < FEW_EFFECTIVE:
            sentences.append(
                f"The revealed labels have an effective sample size of only {number(self.weights.effective)}."
            )
        sentences += self._about_classes()
        if self.overlap.few_labels and self.overlap.barely <= MAX_UNSEEN:
            sentences.append(
                f"Only {count(self.overlap.few_labels, 'label')} of the log, with heavy weights, stand for "
                f"{percent(self.overlap.few_share)} of the pool; buy labels there."
            )
        if self.weights.revealed >= 100 and self.weights.top_share > HEAVY_SHARE:
            sentences.append(
                f"The heaviest 1% of the labels carry {percent(self.weights.top_share)} of the total weight."
            )
        if self.weights.overflowing:
            sentences.append(
                f"{count(self.weights.overflowing, 'label')} had propensities so close to 0 that no weight can be "
                "computed; correct these propensities."
            )
        if self.drift.found:
            sentences.append(self.drift.sentences()[0])
        sentences += self.near_copies.sentences()
        if self.calibration.status == "too few rows" or not self.drift.checked:
            sentences.append(self._unchecked())
        if self.labelled_only:
            sentences.append("The log contains only labelled rows, so its propensities cannot be checked.")
        return tuple(sentences)

    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return headings and their sentences."""
        if self.repeats_decision:
            return ()
        parts = (
            ("Coverage", self.overlap.sentences()),
            ("Weights", self.weights.sentences()),
            ("Propensities", self.calibration.sentences()),
            ("Log and pool", self.drift.sentences()),
            ("Hidden confounding", self.confounding.sentences()),
        )
        return tuple((heading, sentences) for heading, sentences in parts if sentences)

    @property
    def summary(self) -> str:
        """How much data there is, in a sentence."""
        stand_for = f", which stand for about {number(self.n_logged_rows)} rows that the old policy saw"
        return (
            f"A log of {count(self.n_logged, 'row')}, {self.revealed:,} with a label{stand_for if self.labelled_only else ''}; "
            f"a pool of {count(self.pool_rows, 'row')}."
        )

    @property
    def serious(self) -> tuple[str, ...]:
        """The warnings that make buying labels a waste of money until something is changed."""
        return (*self._about_columns(), *(self.calibration.sentences() if self.calibration.cannot_be_right else ()))


@dataclass(frozen=True, kw_only=True)
class GivenDiagnosis(Diagnosis):
    """What labels without recorded propensities are good for: each stands for its own row only (``observal.problem.given``).

    Parameters
    ----------
    population : {"table", "pool", "both"}
        Whose error bought labels will measure.
    coverage : GivenCoverage
        Where hardly anybody has a label.
    """

    population: str
    coverage: GivenCoverage

    @property
    def level(self) -> Level:
        """The verdict in a word."""
        return "buy"

    @property
    def verdict(self) -> str:
        """The finding in one or two sentences."""
        where = f" {self.coverage.regions[0].words()}" if self.coverage.regions else ""
        return (
            f"Buy labels among the {count(self.pool_rows, 'row')} that can be asked about: a given label says nothing about mistakes on "
            f"other rows.{where} observal ask picks the rows, in a campaign that observal init makes."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on the log, most serious first."""
        drift = self.drift.sentences()[:1] if self.drift.found else ()
        classes = (*typo_sentences(self.class_counts), *self._about_classes())
        return (*self._about_columns(), *classes, *drift, *self.near_copies.sentences())

    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return headings and their sentences."""
        drift = (("Log and pool", self.drift.sentences()[:1]),) if self.drift.checked else ()
        return (("Labels", self.coverage.sentences()), *drift, ("Hidden causes", (HIDDEN_CAUSE,)))

    @property
    def summary(self) -> str:
        """How much data there is, in a sentence."""
        kinds = listed([f"{n:,} {label!r}" for label, n in self.class_counts[:MAX_CLASSES]])
        more = (
            f" and {len(self.class_counts) - MAX_CLASSES} more classes" if len(self.class_counts) > MAX_CLASSES else ""
        )
        labels = f"{self.revealed:,} with a label ({kinds}{more})"
        if self.population == "table":
            return f"A table of {count(self.n_logged, 'row')}, {labels}."
        about = POPULATIONS[self.population]
        return (
            f"A log of {count(self.n_logged, 'row')}, {labels}; {count(self.pool_rows, 'row')} can be asked about, and the error is about "
            f"{about}."
        )


def _fill(text: str, indent: str = "", later_indent: str = "") -> str:
    # An option such as --known-before must not be broken across lines, so that it can be copied.
    return fill(text, WIDTH, initial_indent=indent, subsequent_indent=later_indent, break_on_hyphens=False)


def item(text: str) -> str:
    """Return a sentence as a wrapped list item."""
    return _fill(f"– {text}", "  ", "    ")


def _to_json(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _to_json(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_to_json(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def shorten(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return at most five lines: the sentences or, if there are more, the first four and how many are omitted.

    Examples
    --------
    >>> shorten(["a.", "b.", "c.", "d.", "e.", "f."])
    ('a.', 'b.', 'c.', 'd.', '2 more; --notes shows them.')
    """
    if len(sentences) <= MAX_LINES:
        return tuple(sentences)
    return (*sentences[: MAX_LINES - 1], f"{len(sentences) - MAX_LINES + 1} more; --notes shows them.")


def paragraphs(sentences: Sequence[str]) -> list[str | list[str]]:
    """Join sentences to paragraphs, and items that start with a dash to lists.

    Examples
    --------
    >>> paragraphs(["One.", "Two:", "– a.", "– b.", "Three."])
    ['One. Two:', ['a.', 'b.'], 'Three.']
    """
    out: list[str | list[str]] = []
    for is_item, group in groupby(sentences, lambda sentence: sentence.startswith("–")):
        texts = list(group)
        out.append([text.removeprefix("–").strip() for text in texts] if is_item else " ".join(texts))
    return out


def diagnose(
    logged: LoggedData,
    pool: Pool | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
    date_features: Collection[str] = (),
    percent_features: Collection[str] = (),
    confounding: Sequence[float] = (1.25, 1.5, 2.0),
    random_state: int = 0,
    label: str = "",
    known_before: Collection[str] = (),
    population: str | None = None,
) -> RecordedDiagnosis | GivenDiagnosis:
    """Find out how far a log can be trusted, before any label is bought.

    Without propensities, the diagnosis says where labels are, and where hardly anybody has one.

    Shares, weights and calibration use all rows. Checks of features use random samples: at most 20,000 pool
    rows to describe what is barely covered, 2,000 rows of log and pool each to detect drift, and 2,000 labels
    to fit classifiers on.

    Parameters
    ----------
    logged : LoggedData
        What the old policy revealed.
    pool : Pool, optional
        The rows that can be asked about; without propensities, by default the log's rows without a label.
    feature_names : sequence of str, optional
        Names of the columns; ``x0``, ``x1``, … by default.
    sources : sequence of str, optional
        The table column that each feature comes from; derived from the features' names by default.
    date_features : collection of str
        Names of features that are dates, in days since 1970-01-01.
    percent_features : collection of str
        Names of features to show in percent.
    confounding : sequence of float
        Strengths Γ ≥ 1 of hidden confounding: the factor by which the true odds of being revealed may be off.
    random_state : int
        The seed of all random draws.
    label : str
        The name of the label; columns with similar names are checked for leaks.
    known_before : collection of str
        Columns known before the label is; they are never reported as leaks.
    population : {"pool", "both", "table"}, optional
        Without propensities: the rows that the error is about, as in ``Session``; "table" if a campaign made log and pool of one table.

    Returns
    -------
    RecordedDiagnosis or GivenDiagnosis
        With ``verdict``, ``warnings``, ``text()`` and ``to_dict()``.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> from observal.diagnosis import diagnose
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 100, size=(2000, 1))
    >>> chance = np.where(X[:, 0] < 30, 0.002, 0.5)
    >>> shown = rng.random(1000) < chance[:1000]
    >>> logged = ob.LoggedData(X[:1000], np.where(shown, X[:1000, 0] > 50, np.nan), chance[:1000])
    >>> diagnosis = diagnose(logged, ob.Pool(X[1000:], chance[1000:]), feature_names=["income"])
    >>> diagnosis.level
    'buy'
    >>> print(diagnosis.overlap.regions[0].words())
    income ≤ 30: 33% of the pool, 100% of it barely covered
    """
    if pool is None or population != "table":
        arranged = arrange(logged, pool, population)
        problem, population = Problem(arranged.logged, arranged.pool), arranged.population
    else:  # a campaign has arranged them
        problem = Problem(logged, pool)
    names = _check(problem, feature_names, confounding, random_state)
    sources = [source_of(name) for name in names] if sources is None else sources
    # Each check has its own random stream, so that an option of one does not change another.
    for_tree, for_drift, for_fit, _, for_scores, for_copies = (
        np.random.default_rng([random_state, part]) for part in range(6)
    )
    counts = label_counts(logged)
    with one_thread():  # many small fits: threads would only slow each other down
        common: dict[str, Any] = {
            "revealed": sum(n for _, n in counts),
            "pool_rows": len(problem.pool),
            "near_copies": find_near_copies(logged, for_copies),
            "class_counts": counts,
            "random_state": int(random_state),
            "decisions": find_decisions(logged, names, sources),
            "leaks": find_leaks(logged, names, sources, date_features, label, known_before),
            "label": label,
        }
        if problem.is_given:
            population = population or "pool"
            is_sample = pool is not None and population != "table" and not logged.revealed.all()
            return GivenDiagnosis(
                n_logged=problem.n_rows if population == "table" else len(logged),
                drift=find_drift(Problem(logged, pool), names, for_drift) if pool and is_sample else Drift(False),
                population=population,
                coverage=find_given_coverage(problem, population, names, for_tree, date_features, percent_features),
                **common,
            )
        return _diagnose_recorded(
            problem,
            names,
            date_features,
            percent_features,
            confounding,
            (for_tree, for_drift, for_fit, for_scores),
            common,
        )


def _diagnose_recorded(
    problem: Problem,
    names: Sequence[str],
    dates: Collection[str],
    percents: Collection[str],
    confounding: Sequence[float],
    streams: tuple[np.random.Generator, ...],
    common: dict[str, Any],
) -> RecordedDiagnosis:
    logged, (for_tree, for_drift, for_fit, for_scores) = problem.logged, streams
    labelled_only = keeps_labelled_only(logged)
    n_logged_rows = float(len(logged))
    if labelled_only:
        with np.errstate(over="ignore"):
            total = float(plain_importance(logged.propensity).sum())
        n_logged_rows = total if isfinite(total) else n_logged_rows
    weights = summarise_weights(problem, n_logged_rows, labelled_only)
    rows = _sample_labels(logged, weights.clip, for_fit)
    q, shown = logged.propensity, logged.revealed
    return RecordedDiagnosis(
        n_logged=len(logged),
        n_logged_rows=n_logged_rows,
        labelled_only=labelled_only,
        overlap=find_overlap(problem.pool, n_logged_rows, q, shown, names, for_tree, dates, percents),
        weights=weights,
        calibration=check_calibration(q, shown, labelled_only, logged.rows, names, for_scores),
        drift=find_drift(problem, names, for_drift, labelled_only),
        confounding=confound(problem, rows, confounding, for_fit),
        repeats_decision=bool(common["decisions"]) and repeats_decision(q, shown),
        **common,
    )


def _check(
    problem: Problem,
    feature_names: Sequence[str] | None,
    confounding: Sequence[float],
    random_state: int,
) -> list[str]:
    """Return the feature names; raise if options are invalid."""
    problem.require_numbers("The diagnosis", "use observal.load_problem, which encodes columns of any kind")
    for strength in confounding:
        check_number(strength, "The strength of confounding", 1.0)
    check_whole(random_state, "random_state", 0)
    return check_feature_names(feature_names, problem.logged.X.shape[1])


def check_feature_names(names: Sequence[str] | None, n_features: int) -> list[str]:
    """Return one name per feature: ``x0``, ``x1``, … if none are given."""
    if names is None:
        return [f"x{i}" for i in range(n_features)]
    if len(names) != n_features:
        raise InvalidInput(
            f"There must be one name for each of the {n_features} features, but {len(names)} were given; name every feature."
        )
    return [str(name) for name in names]


def _sample_labels(logged: LoggedData, clip: float, rng: np.random.Generator) -> Ints:
    """Return a sample of logged rows with a label and a weight within the clip."""
    rows = np.flatnonzero(logged.revealed & (plain_importance(logged.propensity) <= min(clip, 1e300)))
    return rows[sample_rows(rows.size, MAX_LABELS, rng)]
