"""The report's sections in the order of the page: what its template fills in, as sentences, tables and charts.

Each function goes from ``ReportContent`` to records of text that the template only has to mark up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from observal.checks import Ints
from observal.diagnosis.diagnose import BEFORE, RecordedDiagnosis
from observal.intervals.cells import HIDDEN
from observal.intervals.contradiction import COMPARED, contradiction
from observal.intervals.error import CONFOUNDED
from observal.intervals.flagging import FLAGGED
from observal.intervals.measures import AUC, BASELINE, BASELINE_COST, COST_WINS, WINS, beats_baseline, judged_by
from observal.paper.weights import plain_importance
from observal.problem.goals import POPULATIONS
from observal.problem.interval import Interval
from observal.problem.objectives import BALANCED, COST, SHARES, TARGETS, costs_of, measure_of
from observal.problem.problem import Problem
from observal.problem.result import Round
from observal.problem.words import count, number, percent
from observal.report import charts, inspection, rare, verdict
from observal.report.comparison import comparison_sentences
from observal.report.content import ReportContent
from observal.report.decision import MOST_UNKNOWN, Decision, decide
from observal.report.inspection import GroupError
from observal.report.verdict import is_known, shows_estimate

LAST_ROWS = 12  # rows asked about that are listed
LONGEST_ID = 24  # characters of an id that are kept on one line
MOST_ROUNDS = 60  # rows in the table of rounds; with more rounds, some are left out

# How the cells of a column look; the page's CSS has a rule for each.
TEXT, NUMBER, WORDS, WIDE, ID, VALUE = "", "n", "words", "wide words", "id", "value"
Column = tuple[str, str]
"""The title of a table's column, and how its cells look."""
Cell = str | tuple[str, str]
"""A cell of a table: a text, or a text and a note in small print below."""


class PageTable(NamedTuple):
    """A table of the page; without rows it is not shown. The template has its caption, unless there is one here."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


def numbers(*titles: str) -> list[Column]:
    """Return columns of numbers."""
    return [(title, NUMBER) for title in titles]


@dataclass(frozen=True)
class Verdict:
    """A verdict in a box: its colour, a title, and sentences."""

    level: Literal["good", "care", "buy"]
    title: str
    sentences: Sequence[str]


def decision(content: ReportContent) -> Decision:
    """Return what the report opens with: use the model, buy more labels, or stop; or wait, if not all labels count yet."""
    to_buy = len(content.pool) - len(content.result.queries) - sum(r.skipped for r in content.result.rounds)
    level = model_verdict(content).level
    decided = decide(content.all_intervals, level, content.goals.objective, content.to_gain, to_buy)
    if content.waiting:
        decided = Decision("wait", "Wait until all labels count.", [content.waiting])
    counts = rare.counts_sentence(content.all_intervals, content.classes, _counted_rows(content))
    if counts and not content.waiting:
        decided = decided._replace(why=[counts, *decided.why])
    if content.diagnosis is None or not (content.diagnosis.leaks or content.diagnosis.decisions):
        return decided
    otherwise = f"If all of them are known in time: {decided.title[0].lower()}{decided.title[1:]}"
    why = [*content.diagnosis.serious, otherwise, content.waiting, counts]
    return Decision("stop", "Check these columns first.", [sentence for sentence in why if sentence])


# -- in short --------------------------------------------------------------------------------------------------------


def tiles(content: ReportContent) -> list[tuple[str, str, str]]:
    """Return the numbers on top of the page: name, value, and a note."""
    objective, classes = content.goals.objective, content.classes
    measures = {measure.name: measure for measure in content.measures}
    titles = {
        "recall": f"Recall of {classes[-1]!r}",
        "precision": f"Precision of {classes[-1]!r}",
        COST: "Cost of a row",
    }
    out = [] if is_known(content.error) else [("Error", "not known yet", "too few labels")]
    about = ("error", BASELINE) if objective == "error" else rare.objective_names(objective)
    about = (COST, BASELINE_COST, *about) if measure_of(objective) == COST else about
    for name in about:
        measure = measures.get(name)
        if measure is None or not is_known(measure.interval):
            continue
        if name in (BASELINE, BASELINE_COST):
            always = verdict.commonest(content.all_intervals, classes, () if name == BASELINE else costs_of(objective))
            what = "error" if name == BASELINE else "cost"
            value = measure.estimate() if shows_estimate(measure.interval) else measure.ends()
            out.append((f"Always {always}", value, f"the baseline's {what}"))
        elif name == "error":  # the interval is what is promised
            note = f"estimate {measure.estimate()}" if shows_estimate(measure.interval) else "too early for an estimate"
            if verdict.is_partly_measured(measure.interval):
                note = f"on the {percent(1.0 - measure.interval.unknown)} of rows that can be judged"
                measure = measure._replace(interval=measure.interval.judged)
            out.append(("Error", measure.ends(), note))
        elif name == FLAGGED:
            rows, low, high = rare.flagged_rows(measure.interval, _counted_rows(content))
            out.append(("Rows flagged", f"{rows:,}", f"{low:,} to {high:,}; {measure.estimate()}"))
        else:
            out.append((titles.get(name, name.capitalize()), measure.estimate(), measure.ends()))
    revealed, counted = int(content.logged.revealed.sum()), len(content.result.queries)
    so_far = f"{number(counted)} of them count yet, " if content.uncounted else ""
    before = "given" if content.goals.population == "table" else "in the log"
    return [
        *out,
        ("Labels bought", number(counted + content.uncounted), f"{so_far}plus {number(revealed)} {before}"),
        ("Rounds", number(len(content.result.rounds) - 1), f"after {content.log} alone"),
    ]


def headline(content: ReportContent) -> list[str]:
    """Return the main results in a few sentences."""
    bought, revealed = len(content.result.queries) + content.uncounted, int(content.logged.revealed.sum())
    error, skipped = content.error, sum(r.skipped for r in content.result.rounds)
    stopped = content.result.stopped
    rows = f"The log has {count(len(content.logged), 'row')}, {revealed:,} of them with a label. From a pool of "
    if content.is_given and content.goals.population != "pool":
        rows = f"Of {_counted_rows(content):,} rows, {revealed:,} have a given label. From the other "
    sentences = [
        verdict.contradiction_sentence(content.all_intervals, content.classes),
        f"{rows}{count(len(content.pool), 'row')}, {count(bought, 'more label was', 'more labels were')} bought"
        + (f"; {count(skipped, 'row was', 'rows were')} skipped." if skipped else "."),
        content.goals.uncounted_words(revealed if content.is_given else 0),
        content.waiting,
        f"The classifier's error on {POPULATIONS[content.goals.population]} is {verdict.error_words(error)}.",
        verdict.returned_sentence(content.result.returned_round),
        _confounding_sentence(content),
        _agreement_sentence(content),
        f"It is {stopped}." if stopped.startswith("not finished") else f"Why it stopped: {stopped}.",
    ]
    return [sentence for sentence in sentences if sentence]


def _confounding_sentence(content: ReportContent) -> str:
    """Return how far hidden confounding may move the error; empty if that is unknown."""
    interval = content.all_intervals.get(CONFOUNDED)
    if interval is None or not is_known(content.error):
        return ""
    return (
        "If the old policy also used something that was not recorded and its odds of revealing a label are off by a "
        f"factor of up to {HIDDEN:g}, the error is between {percent(interval.low)} and {percent(interval.high)}."
    )


def _agreement_sentence(content: ReportContent) -> str:
    """Return whether rows picked at random agree with the log; empty if too few were picked, or if they do not."""
    compared = content.all_intervals.keys() & set(COMPARED.values())
    agree = compared and contradiction(content.all_intervals) is None
    return "Rows picked at random agree with similar rows of the log." if agree else ""


def log_verdict(content: ReportContent) -> Verdict | None:
    """Return the verdict on the log; None without a diagnosis."""
    if content.diagnosis is None:
        return None
    titles = {"good": "The log is usable.", "care": "Use the log with care.", "buy": "The log alone is not enough."}
    level, serious, said = content.diagnosis.level, content.diagnosis.serious, content.diagnosis.verdict
    if serious:
        return Verdict("buy", f"{BEFORE}:", [*(sentence for sentence in serious if sentence not in said), said])
    bought, alone = len(content.result.queries), content.log.capitalize() + " alone"
    if level == "buy" and bought and is_known(content.error) and content.error.unknown <= MOST_UNKNOWN:
        known = f"the error is measured on {percent(1.0 - content.error.unknown)} of the rows"
        return Verdict("good", f"{alone} would not be enough.", [f"With {count(bought, 'bought label')}, {known}."])
    return Verdict(
        level,
        titles[level].replace("The log alone is", f"{alone} {'are' if content.log.endswith('s') else 'is'}"),
        [said],
    )


def model_verdict(content: ReportContent) -> Verdict:
    """Return the verdict on the model: against the baseline, or by the AUC if it has another objective."""
    classes, intervals, objective = content.classes, content.all_intervals, content.goals.objective
    compares = objective == "error" or COST_WINS in intervals
    beats = beats_baseline(intervals, COST_WINS if COST_WINS in intervals else WINS)
    if not compares and AUC in intervals:  # such a model may make more mistakes than the baseline
        beats = True if intervals[AUC].low > 0.5 else None
    elif not compares and BALANCED in intervals:
        beats = True if intervals[BALANCED].high < 1.0 - 1.0 / len(classes) else None
    level: Literal["good", "care", "buy"] = "good" if beats else "buy"
    if beats is None or not is_known(content.error):
        level = "care"
    compared = verdict.baseline_sentence(intervals, classes, objective) if compares else ""
    sentences = (
        compared,
        verdict.threshold_sentence(content.result.estimator, classes),
        verdict.advice(intervals, classes, objective),
        "" if content.waiting else _worth_sentence(content),
    )
    title = verdict.title_of(level, "error" if compares else objective)
    return Verdict(level, title, [sentence for sentence in sentences if sentence])


def _counted_rows(content: ReportContent) -> int:
    return content.goals.count_rows(len(content.logged), len(content.pool))


def thresholds_table(content: ReportContent) -> PageTable:
    """Return what other thresholds would find; no rows without an objective."""
    rows = rare.threshold_rows(content.all_intervals, _counted_rows(content))
    return PageTable(
        numbers(*rare.THRESHOLD_TITLES), rows, f"How many {content.classes[-1]!r} other thresholds would find"
    )


def thresholds_chart(content: ReportContent) -> charts.Chart | None:
    """Return the curve of recall against the share flagged; None without an objective."""
    curve = [(one.share, one.recall) for one in rare.other_thresholds(content.all_intervals, _counted_rows(content))]
    now = [content.all_intervals.get(name) for name in (FLAGGED, "recall")]
    if len(curve) < 2 or now[0] is None or now[1] is None:
        return None
    return charts.recall_chart(curve, (now[0].estimate, now[1]), str(content.classes[-1]))


def _worth_sentence(content: ReportContent) -> str:
    """Return whether labels were worth it and what more may bring, by what the objective is about; empty if that is unknown."""
    classes, objective = content.classes, content.goals.objective
    names, labels = judged_by(objective), content.result.queries["label"]
    history = content.error_history
    before = content.before or ({"error": history[0][1]} if history else {})
    if not len(labels):
        before = content.all_intervals
    then = {measure.name: measure for measure in verdict.measures_of(before, classes, objective)}
    now = {measure.name: measure for measure in content.measures}
    if not all(name in then and name in now for name in names):
        return ""
    sentence = verdict.worth([then[name] for name in names], [now[name] for name in names], len(labels), classes)
    sentence = sentence.replace("the log", content.log)
    if not len(labels):
        return sentence
    shares = [float(np.mean(labels == value)) for value in classes]
    involved = shares[-1] if names[0] in TARGETS else min(shares) if names[0] == BALANCED else 1.0
    return f"{sentence} {verdict.outlook(now[names[0]], content.to_gain if objective == 'error' else None, involved)}"


# -- the model -------------------------------------------------------------------------------------------------------


def measures_table(content: ReportContent) -> PageTable:
    """Return the intervals, the error first; each row names the class that it is about."""
    measures, goals = content.measures, content.goals.words()
    levels = [f"{100 * measure.interval.confidence:g}%" for measure in measures]
    rows: list[list[Cell]] = [[(m.name, m.about), m.estimate(), m.ends()] for m in measures]
    columns = [("measure", TEXT), *numbers("estimate", "interval")]
    if len(set(levels)) == 1:
        return PageTable(columns, rows if len(rows) > 1 else [], f"Intervals at {levels[0]} confidence, {goals}")
    rows = [[*row, level] for row, level in zip(rows, levels, strict=True)]
    return PageTable([*columns, *numbers("confidence")], rows, f"Intervals {goals}")


def confusion_table(content: ReportContent) -> PageTable:
    """Return the confusion matrix, in shares of all rows."""
    columns = [("actual class", TEXT), *numbers(*(f"predicted {name}" for name in content.classes))]
    matrix = verdict.confusion(content.all_intervals, content.classes)
    if matrix is None or not is_known(content.error) or verdict.is_unmeasured(content.error):
        return PageTable(columns, [])
    rows: list[list[Cell]] = []
    for i, intervals in enumerate(matrix):
        rows.append([str(content.classes[i])])
        for j, interval in enumerate(intervals):
            measure = verdict.Measure("share", "", interval)
            rows[-1].append((f"{'right' if i == j else 'wrong'}: {measure.estimate()}", measure.ends()))
    return PageTable(columns, rows)


def groups_and_use(content: ReportContent) -> tuple[PageTable, PageTable]:
    """Return the errors by group, those by the columns that the model uses most first, and what the model uses."""
    use = inspection.column_use(content.result.estimator, content.pool.rows, content.columns)
    groups = []
    if content.judged is not None:
        groups = inspection.errors_by_group(
            Problem(content.logged, content.pool),
            content.judged,
            content.names,
            content.columns,
            [column for column, _ in use],
            content.value_words,
            _class_looked_for(content),
        )
    return (
        _groups_table(groups, content),
        PageTable(
            [("column", WORDS), *numbers("moves by")],
            [[column, percent(move)] for column, move in use[: inspection.MOST_SHOWN]],
        ),
    )


def named_groups_table(content: ReportContent) -> PageTable:
    """Return the errors of the groups that the user named."""
    judged, positive = content.judged, _class_looked_for(content)
    if judged is None:
        return _groups_table([], content)
    groups = content.named_groups
    return _groups_table([inspection.error_of_group(group, judged, positive) for group in groups], content)


def _class_looked_for(content: ReportContent) -> int | None:
    """Return the code of the class that the objective is about; None if it is about all rows."""
    return len(content.classes) - 1 if measure_of(content.goals.objective) in SHARES else None


def _groups_table(groups: Sequence[GroupError], content: ReportContent) -> PageTable:
    """Return the errors of groups; if the objective is about a class, its recall beside them."""
    if (positive := _class_looked_for(content)) is not None:
        cells: list[list[Cell]] = []
        for group in groups:
            recall, ends = _error_cells(group.recall, "too few of them")
            counts = f"{group.found:,} of {group.positives:,}"
            found = f"{recall}, {counts}" if group.recall is not None and is_known(group.recall) else counts
            cells.append(
                [group.group, number(group.labels), (found, ends), _error_cells(group.error, "too few labels")]
            )
        title = f"recall of {str(content.classes[positive])!r}, labels found"
        return PageTable([("rows with", WORDS), *numbers("labels", title, "error")], cells)
    rows = [[group.group, number(group.labels), *_error_cells(group.error, "too few labels")] for group in groups]
    return PageTable([("rows with", WORDS), *numbers("labels", "error", "interval")], rows)


def _error_cells(error: Interval | None, otherwise: str) -> tuple[str, str]:
    """Return an error and its interval for a table."""
    measure = None if error is None else verdict.Measure("error", "", error)
    if measure is None or measure.ends() == "not known":
        return "–", otherwise
    return measure.estimate(), measure.ends().replace("less than ", "< ")


def comparison_table(content: ReportContent) -> PageTable:
    """Return the errors of this model and of ordinary ones, with the log alone and with all labels."""
    comparison = content.comparison
    if comparison is None:
        return PageTable([], [])
    with_log = any(model.log_alone is not None for model in comparison.models)

    log = content.log.removeprefix("the ")
    titles = [f"{log} alone", f"{log} + bought"] if with_log else [f"{log} alone"]
    rows: list[list[Cell]] = [
        [
            model.name,
            *([_error_cells(model.log_alone, "not known")] if with_log else []),
            _error_cells(model.all_labels, "not known"),
        ]
        for model in comparison.models
    ]
    return PageTable([("error of", TEXT), *numbers(*titles)], rows)


def comparison_words(content: ReportContent) -> list[str]:
    """Return what the comparison with ordinary models says."""
    if content.comparison is None or content.waiting:
        return []
    if verdict.is_unmeasured(content.error):
        return [f"{percent(content.error.unknown)} of the rows are not measured, so no models can be compared yet."]
    said = comparison_sentences(content.comparison.models, len(content.result.queries))
    return [sentence.replace("the log", content.log) for sentence in said]


def comparison_note(content: ReportContent) -> str:
    """Return how the comparison was made; empty without one."""
    if content.comparison is None:
        return ""
    return (
        "Every model is judged on labelled rows that it has not seen, with the same weights. Logistic regression and boosted trees are fitted as "
        f"usual, without weights; this took {content.comparison.seconds:.1f} s of processor time."
    )


def progress_charts(content: ReportContent) -> list[charts.Chart]:
    """Return the charts of the error and of what is undecided, by labels bought."""
    history = content.error_history or [(content.result.rounds[-1].labels, content.error)]
    name = judged_by(content.goals.objective)[0]
    if name in TARGETS and content.objective_history:
        history = content.objective_history
    what = f"{name} of {content.classes[-1]!r}" if history is content.objective_history else "error"
    out = [charts.error_chart(history, what)] if any(is_known(interval) for _, interval in history) else []
    rounds = [r for r in content.result.rounds if np.isfinite(r.disagreement)]
    if len(rounds) > 1 and content.goals.objective == "error":  # otherwise another threshold than ½ decides
        out.append(charts.uncertain_chart([r.labels for r in rounds], [r.disagreement for r in rounds]))
    return out


# -- rows asked about ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AskedSection:
    """The section on rows asked about: how many the log barely covers, decisions by reason, and the last rows."""

    coverage: str
    reasons: PageTable
    last: PageTable


def asked_section(content: ReportContent) -> AskedSection:
    """Return the section on rows asked about."""
    positions = inspection.asked_positions(content.pool, content.result)
    return AskedSection(
        _coverage_sentence(content, positions), _reasons_table(content), _last_table(content, positions)
    )


def _coverage_sentence(content: ReportContent, positions: Ints) -> str:
    """Return how many rows asked about are barely covered by the log; empty without such rows."""
    if not isinstance(content.diagnosis, RecordedDiagnosis) or not positions.size:
        return ""
    overlap = content.diagnosis.overlap
    if overlap.barely == 0.0:
        return ""
    barely = int(np.count_nonzero(content.pool.propensity[positions] < overlap.threshold))
    return (
        f"{barely:,} of the {count(positions.size, 'label')} bought are for rows that the log barely covers; such rows are "
        f"{percent(overlap.barely)} of the pool."
    )


def _reasons_table(content: ReportContent) -> PageTable:
    decisions = content.result.decisions
    counts: dict[tuple[str, str], int] = {}
    for key in zip(decisions["action"].tolist(), decisions["reason"].tolist(), strict=True):
        counts[key] = counts.get(key, 0) + 1
    rows = [[*key, number(n)] for key, n in sorted(counts.items(), key=lambda item: -item[1])]
    return PageTable([("decision", TEXT), ("reason", WORDS), *numbers("rows")], rows)


def _last_table(content: ReportContent, positions: Ints) -> PageTable:
    """Return the last rows asked about, the latest first."""
    latest = positions[-LAST_ROWS:][::-1]
    rows = []
    for i, query in enumerate(content.result.queries[::-1][: latest.size]):
        rows.append(
            [
                str(query.id),
                str(query.label),
                cell_text(float(content.pool.propensity[latest[i]])),
                str(query.round),
                percent(query.query_probability),
                query.reason,
            ]
        )
    columns = [
        ("row", ID if all(len(row[0]) <= LONGEST_ID for row in rows) else TEXT),
        ("answer", TEXT),
        *numbers("propensity", "round", "chance"),
        ("reason", WIDE),
    ]
    return PageTable(columns, rows, f"The last {len(rows)} rows asked about")


def annotators_table(content: ReportContent) -> PageTable:
    """Return who answered how many rows."""
    people = content.annotators or ()
    name, *others = people[0] if people else ("",)
    rows = [[cell_text(value) for value in person.values()] for person in people]
    return PageTable([(name, TEXT), *numbers(*others)], rows)


# -- the log ---------------------------------------------------------------------------------------------------------


def diagnosis_charts(content: ReportContent) -> list[charts.Chart]:
    """Return the charts of overlap and calibration; none without recorded propensities."""
    diagnosis, logged = content.diagnosis, content.logged
    if not isinstance(diagnosis, RecordedDiagnosis):
        return []
    revealed = logged.propensity[logged.revealed]
    out = [charts.overlap_chart(content.pool.propensity, revealed, diagnosis.overlap.threshold)]
    if diagnosis.calibration.bins:
        out.append(charts.calibration_chart(diagnosis.calibration))
    return out


def weights_chart(content: ReportContent) -> charts.Chart | None:
    """Return the histogram of the weights of the log's labels."""
    weights = plain_importance(content.logged.propensity[content.logged.revealed])
    weights = weights[np.isfinite(weights)]
    if weights.size == 0 or not isinstance(content.diagnosis, RecordedDiagnosis):
        return None
    return charts.weights_chart(weights, content.diagnosis.weights.clip)


def weights_table(content: ReportContent) -> PageTable:
    """Return the quantiles of the weights of the log's labels."""
    quantiles = content.diagnosis.weights.quantiles if isinstance(content.diagnosis, RecordedDiagnosis) else ()
    ends = {0.0: "smallest", 1.0: "largest"}
    columns = numbers(*(ends.get(share) or percent(share) for share, _ in quantiles))
    return PageTable(columns, [[cell_text(weight) for _, weight in quantiles]] if quantiles else [])


# -- rounds, and how the report was made -------------------------------------------------------------------------------

ROUND_TITLES = {
    "index": "round",
    "labels": "labels so far",
    "asked": "in this round",
    "inferred": "inferred without asking",
    "passed": "passed over",
    "clip": "largest weight",
    "disagreement": "pool still undecided",
    "least_chance": "smallest chance",
    "learners": "models in the blend",
    "features": "features used",
    "ridge": "shrinkage",
    "tempering": "exponent of the weights",
    "returned_round": "classifier of round",
}


def rounds_table(content: ReportContent) -> PageTable:
    """Return the table of rounds, with those of its columns that are not empty; of very many rounds, some."""
    rounds = content.result.rounds
    optional = ("skipped", "inferred", "passed", "candidates")
    fields = ["index", "labels", "asked", *(name for name in optional if any(getattr(r, name) for r in rounds))]
    fields += ["clip", "disagreement"]
    details = list(dict.fromkeys(name for r in rounds for name in r.details))
    shown = np.unique(np.linspace(0, len(rounds) - 1, min(len(rounds), MOST_ROUNDS)).round().astype(np.int64))
    columns = []
    for name in (*fields, *details):
        is_text = any(isinstance(r.details.get(name), str) for r in rounds)
        columns.append((ROUND_TITLES.get(name, name.replace("_", " ")), WIDE if is_text else NUMBER))
    rows = [_round_row(rounds[i], fields, details) for i in shown.tolist()]
    return PageTable(columns, rows, "A selection of rounds" if len(rows) < len(rounds) else "All rounds")


def _round_row(r: Round, fields: Sequence[str], details: Sequence[str]) -> list[str]:
    values = {name: getattr(r, name) for name in fields} | {name: r.details.get(name) for name in details}
    for name in ("disagreement", "least_chance"):  # shares
        if values.get(name) is not None and np.isfinite(values[name]):
            values[name] = percent(values[name])
    return [cell_text(value) for value in values.values()]


def rounds_note(content: ReportContent, table: PageTable) -> str:
    """Return how to read the table of rounds."""
    sentences = [
        "Round 0 is the log alone. “Still undecided” is the share of the pool on which plausible classifiers disagree."
    ]
    if any(title == ROUND_TITLES["least_chance"] for title, _ in table.columns):
        sentences.append("“Smallest chance”: in the next round, every row that can be picked has at least this chance.")
    if omitted := len(content.result.rounds) - len(table.rows):
        sentences.append(f"{number(omitted)} of the rounds, evenly spaced, are not shown.")
    return " ".join(sentences)


def settings_table(content: ReportContent) -> PageTable:
    """Return the settings with the seed."""
    seed = {} if content.random_state is None else {"seed": content.random_state}
    rows = [[str(name), str(value)] for name, value in {**content.settings, **seed}.items()]
    return PageTable([("setting", TEXT), ("value", VALUE)], rows)


def versions_table(content: ReportContent) -> PageTable:
    """Return the versions of packages."""
    return PageTable([("package", TEXT), ("version", TEXT)], list(content.versions.items()))


def cell_text(value: object) -> str:
    """Return a value as text for a table.

    Examples
    --------
    >>> cell_text(0.12345), cell_text(12000), cell_text("north"), cell_text(None), cell_text(True)
    ('0.123', '12,000', 'north', '–', 'yes')
    """
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | float | np.integer | np.floating):
        return "–" if np.isnan(value) else "no limit" if np.isinf(value) else number(float(value))
    return str(value)
