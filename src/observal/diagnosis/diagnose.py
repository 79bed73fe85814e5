"""Whether a log can be trusted, in words and numbers: ``diagnose`` and the record it returns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from math import isfinite
from textwrap import fill
from typing import Any, Literal, cast

import numpy as np

from observal.checks import Ints, check_number, check_share, check_whole
from observal.diagnosis.calibration_check import Calibration, check_calibration
from observal.diagnosis.confounding import Confounding, confounded_range
from observal.diagnosis.decision_column import Decision, decision_sentence, find_decisions, repeats_decision
from observal.diagnosis.drift import Drift, find_drift
from observal.diagnosis.feature_values import sample_rows, source_of, standardise
from observal.diagnosis.leaks import Leak, find_leaks, leak_sentence
from observal.diagnosis.learning_curve import MIN_LABELS, LabelsNeeded, labels_needed, out_of_fold_mistakes
from observal.diagnosis.near_copies import NearCopies, find_near_copies
from observal.diagnosis.overlap import Overlap, find_overlap
from observal.diagnosis.propensity import keeps_labelled_only
from observal.diagnosis.rare_class import find_typos, label_counts, typo_sentences
from observal.diagnosis.weighting import Weighting, summarise_weights
from observal.errors import InvalidInput
from observal.paper.weights import plain_importance
from observal.problem.data import LoggedData, Pool
from observal.problem.problem import Problem
from observal.problem.rows import Matrix
from observal.problem.words import count, number, percent
from observal.threads import one_thread

MAX_UNSEEN = 0.05  # unseen share of the population that rivals typical errors: no weighted estimate can be trusted
FEW_EFFECTIVE = 30.0  # effective labels; with fewer, a 95% interval for an error is wider than 0.3
FEW_OF_CLASS = 5
HEAVY_SHARE = 0.5  # share of all weight on one label in a hundred
MAX_LABELS = 2000  # revealed labels to fit classifiers on
WIDTH = 100
BEFORE = "Before you spend money"
MAX_LINES = 5  # listed under that heading

UNTESTED = (
    "No test can show whether the old policy used something that was not recorded, or whether labels would be the "
    "same today."
)

Level = Literal["good", "care", "buy"]


@dataclass(frozen=True)
class Diagnosis:
    """How far a log can be trusted for a pool.

    Parameters
    ----------
    n_logged, revealed, pool_rows : int
        Rows of the log, labels revealed among them, rows of the pool.
    n_logged_rows : float
        The rows that the old policy saw: `n_logged`, or an estimate if only labelled rows were kept.
    labelled_only : bool
        Whether the log kept only its labelled rows.
    overlap, weights, calibration, drift, confounding, labels_needed, near_copies
        The findings, each with its numbers and ``sentences()``.
    class_counts : tuple of (class, labels)
        The number of labels of each class in the log.
    random_state : int
        The seed of all random draws.
    decisions : tuple of Decision
        Columns that tell which labels were revealed.
    repeats_decision : bool
        Whether the propensities merely repeat such a column, which makes everything computed from them meaningless.
    leaks : tuple of Leak
        Columns that may leak the label.
    label : str
        The name of the label.
    """

    n_logged: int
    revealed: int
    pool_rows: int
    n_logged_rows: float
    labelled_only: bool
    overlap: Overlap
    weights: Weighting
    calibration: Calibration
    drift: Drift
    confounding: Confounding
    labels_needed: LabelsNeeded
    near_copies: NearCopies
    class_counts: tuple[tuple[str, int], ...]
    random_state: int
    decisions: tuple[Decision, ...] = ()
    repeats_decision: bool = False
    leaks: tuple[Leak, ...] = ()
    label: str = ""

    @property
    def level(self) -> Level:
        """The verdict: "good", "care" (read the warnings) or "buy" (weights cannot help: labels must be bought)."""
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
            " The propensities contradict which labels were revealed: correct them or, if they are estimated, add the columns that the policy looked at."
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

    def _about_columns(self) -> list[str]:
        """Return warnings about decision columns and possible leaks."""
        sentences = [decision_sentence(self.decisions)] if self.decisions else []
        return [*sentences, leak_sentence(self.leaks, self.label)] if self.leaks else sentences

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
        typos = find_typos(self.class_counts)
        sentences += [
            f"The log has only {count(n, 'label')} of class {label!r}, too few to learn from."
            for label, n in self.class_counts
            if n < FEW_OF_CLASS and label not in typos
        ]
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
        """Return headings and their sentences; one that starts with a dash is a list item, see ``paragraphs``."""
        if self.repeats_decision:
            return ()
        parts = (
            ("Coverage", self.overlap.sentences()),
            ("Weights", self.weights.sentences()),
            ("Propensities", self.calibration.sentences()),
            ("Log and pool", self.drift.sentences()),
            ("Hidden confounding", self.confounding.sentences()),
            ("Labels needed", self.labels_needed.sentences()),
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
        for region, source in zip(fields["overlap"]["regions"], self.overlap.regions, strict=True):
            region["words"] = source.words()
        values = _to_json({**fields, "level": self.level, "verdict": self.verdict, "warnings": self.warnings})
        return cast("dict[str, Any]", values)


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
    pool: Pool,
    *,
    feature_names: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
    date_features: Collection[str] = (),
    percent_features: Collection[str] = (),
    target_error: float | None = None,
    confounding: Sequence[float] = (1.25, 1.5, 2.0),
    random_state: int = 0,
    label: str = "",
    known_before: Collection[str] = (),
) -> Diagnosis:
    """Find out how far a log can be trusted for a pool, before any label is bought.

    Shares, weights and calibration use all rows. Checks of features use random samples: at most 20,000 pool
    rows to describe what is barely covered, 2,000 rows of log and pool each to detect drift, and 2,000 labels
    to fit classifiers on.

    Parameters
    ----------
    logged, pool : LoggedData, Pool
        What the old policy revealed, and the rows that can be asked about.
    feature_names : sequence of str, optional
        Names of the columns; ``x0``, ``x1``, … by default.
    sources : sequence of str, optional
        The table column that each feature comes from; derived from the features' names by default.
    date_features : collection of str
        Names of features that are dates, in days since 1970-01-01.
    percent_features : collection of str
        Names of features to show in percent.
    target_error : float, optional
        An error in (0, 1); the number of labels it needs is estimated.
    confounding : sequence of float
        Strengths Γ ≥ 1 of hidden confounding: the factor by which the true odds of being revealed may be off.
    random_state : int
        The seed of all random draws.
    label : str
        The name of the label; columns with similar names are checked for leaks.
    known_before : collection of str
        Columns known before the label is; they are never reported as leaks.

    Returns
    -------
    Diagnosis
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
    problem = Problem(logged, pool)
    names = _check(problem, feature_names, target_error, confounding, random_state)
    # Each check has its own random stream, so that an option of one does not change another.
    for_tree, for_drift, for_fit, for_curve, for_scores, for_copies = (
        np.random.default_rng([random_state, part]) for part in range(6)
    )
    labelled_only = keeps_labelled_only(logged)
    n_logged_rows = float(len(logged))
    if labelled_only:
        with np.errstate(over="ignore"):
            total = float(plain_importance(logged.propensity).sum())
        n_logged_rows = total if isfinite(total) else n_logged_rows
    weights = summarise_weights(problem, n_logged_rows, labelled_only)
    rows = _sample_labels(logged, weights.clip, for_fit)
    X, codes = standardise(logged.rows.take(rows)), logged.codes[rows]
    importance, groups = plain_importance(logged.propensity[rows]), problem.groups_of(rows)
    with one_thread():  # many small fits: threads would only slow each other down
        drift = find_drift(problem, names, for_drift, labelled_only)
        error_range = _confound(logged, rows, X, confounding, for_fit, groups)
        needed = labels_needed(X, codes, importance, target_error, for_curve, groups)
        near_copies = find_near_copies(logged, for_copies)
    sources = [source_of(name) for name in names] if sources is None else sources
    decisions = find_decisions(logged, names, sources)
    expected = np.ones(len(logged)) if labelled_only else logged.propensity
    return Diagnosis(
        n_logged=len(logged),
        revealed=weights.revealed,
        pool_rows=len(pool),
        n_logged_rows=n_logged_rows,
        labelled_only=labelled_only,
        overlap=find_overlap(
            problem.pool, n_logged_rows, logged.propensity, expected, names, for_tree, date_features, percent_features
        ),
        weights=weights,
        calibration=check_calibration(
            logged.propensity, logged.revealed, labelled_only, logged.rows, names, for_scores
        ),
        drift=drift,
        confounding=error_range,
        labels_needed=needed,
        near_copies=near_copies,
        class_counts=label_counts(logged),
        random_state=int(random_state),
        decisions=decisions,
        leaks=find_leaks(logged, names, sources, date_features, label, known_before),
        label=label,
        repeats_decision=bool(decisions) and repeats_decision(logged.propensity, logged.revealed),
    )


def _check(
    problem: Problem,
    feature_names: Sequence[str] | None,
    target_error: float | None,
    confounding: Sequence[float],
    random_state: int,
) -> list[str]:
    """Return the feature names; raise if options are invalid."""
    problem.require_numbers("The diagnosis", "use observal.load_problem, which encodes columns of any kind")
    if target_error is not None:
        check_share(target_error, "target_error", inner=True, fix="write 5% as 0.05")
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


def _confound(
    logged: LoggedData,
    rows: Ints,
    X: Matrix,
    strengths: Sequence[float],
    rng: np.random.Generator,
    groups: Ints | None,
) -> Confounding:
    """Return how far hidden confounding of each strength would move the out-of-fold error of these rows."""
    if rows.size < MIN_LABELS:
        return Confounding(None, int(rows.size))
    chance = logged.propensity[rows]
    wrong, _ = out_of_fold_mistakes(X, logged.codes[rows], plain_importance(chance), rng, groups=groups)
    outcomes = wrong * (1.0 if logged.cost is None else logged.cost[rows])
    ranges = tuple((float(g), *confounded_range(outcomes, chance, float(g))) for g in sorted(strengths))
    return Confounding(confounded_range(outcomes, chance, 1.0)[0], int(rows.size), ranges)
