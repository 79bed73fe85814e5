"""The commands for results: status, report, export, predict, monitor, history, check and backup."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated

import typer

from observal.cli.options import (
    Annotator,
    DecimalSign,
    Encoding,
    Force,
    Json,
    Missing,
    Notes,
    Separator,
    Where,
    open_campaign,
    option,
    split_list,
)
from observal.cli.output import (
    next_command,
    print_json,
    print_pairs,
    print_result,
    print_table,
    progress_bar,
    say,
    write_csv,
    write_excel,
)
from observal.errors import hide_secrets
from observal.problem.words import count, listed, split_notes

if TYPE_CHECKING:
    import pyarrow as pa
    from sklearn.pipeline import Pipeline

    from observal.campaign import Campaign
    from observal.journal.status import Status
    from observal.problem.interval import Interval


def status(
    campaign: Where,
    interval: Annotated[
        bool, typer.Option("--interval", help="Show the interval around the classifier's error.")
    ] = False,
    notes: Notes = False,
    as_json: Json = False,
) -> None:
    """Show the progress of a campaign.

    Example: observal status campaign.db --interval
    """
    measures = None
    with progress_bar("reading", hidden=as_json or not interval) as progress:
        opened = open_campaign(campaign, progress=progress)
        if interval:
            measures = ModelMeasures(opened.intervals(), opened.returned_round, opened.estimator)
    current = opened.status()
    print_status(current, as_json, measures, notes)
    if measures is not None and "error" in measures.intervals and not (as_json or current.stopped):
        from observal.report.verdict import labels_to_measure

        if missing := labels_to_measure(measures.intervals["error"]):
            say("Next: " + next_command("ask", campaign, f"-n {current.open_rows or missing} --csv -o labels.csv"))


@dataclass(frozen=True)
class ModelMeasures:
    """A classifier, intervals for its measures, and the earlier round it is from, if it is not from the last one."""

    intervals: Mapping[str, Interval]
    returned_round: int | None
    estimator: object


def print_status(current: Status, as_json: bool, measures: ModelMeasures | None = None, notes: bool = False) -> None:
    """Print the status, with the measures of the classifier on top, and all notes or the first warnings among them."""
    if measures is not None and not measures.intervals:
        measures = None
    if as_json:
        print_json(current.to_dict() | (_measures_to_json(measures) if measures else {}))
        return
    print_pairs([*(_measures_to_lines(current, measures) if measures else []), *current.lines()])
    warnings, others = split_notes(current.notes)
    print_warnings(warnings, notes)
    print_notes(others, notes)


def print_warnings(warnings: Sequence[str], show_all: bool) -> None:
    """Print what to look at before money is spent, in red on a terminal."""
    if not warnings:
        return
    from observal.diagnosis.diagnose import BEFORE, item, shorten

    items = [item(sentence) for sentence in (warnings if show_all else shorten(warnings))]
    say("\n".join([BEFORE, *items]), lines=True, red=items)


def print_notes(notes: Sequence[str], show_all: bool) -> None:
    """Print notes, or only how many there are."""
    if show_all:
        for note in notes:
            say(f"Note: {note}")
    elif notes:
        say(
            f"{count(len(notes), 'note')} on how the tables were read; --notes shows {'it' if len(notes) == 1 else 'them'}."
        )


def _measures_to_json(measures: ModelMeasures) -> dict[str, object]:
    from observal.intervals.contradiction import contradiction
    from observal.intervals.measures import beats_baseline
    from observal.problem.method import threshold_of

    intervals = measures.intervals
    return {
        "error_interval": asdict(intervals["error"]),
        "contradicted": contradiction(intervals) is not None,
        "beats_baseline": beats_baseline(intervals),
        "returned_round": measures.returned_round,
        "threshold": threshold_of(measures.estimator),
        "intervals": {name: asdict(interval) for name, interval in intervals.items()},
    }


def _measures_to_lines(current: Status, measures: ModelMeasures) -> list[tuple[str, str]]:
    from observal.report.rare import counts_sentence
    from observal.report.verdict import (
        advice,
        baseline_sentence,
        confusion_lines,
        contradiction_sentence,
        error_words,
        measures_of,
        returned_sentence,
        threshold_sentence,
    )

    intervals, classes, objective = measures.intervals, current.classes, current.objective
    aims = objective != "error"
    counts = counts_sentence(intervals, classes, current.counted_rows) if aims else ""
    lines = [("warning", contradiction_sentence(intervals, classes))]
    lines.append(("in short", counts) if aims else ("error", error_words(intervals["error"])))
    first, last = (advice, baseline_sentence) if aims else (baseline_sentence, advice)
    lines.append(("", first(intervals, classes, objective)))
    others = [m for m in measures_of(intervals, classes, objective) if aims or m.name != "error"]
    lines += [(measure.name, f"{measure.words()}: {measure.about}") for measure in others]
    matrix = confusion_lines(intervals, classes)
    lines += zip(["confusion", *[""] * len(matrix)], matrix, strict=False)
    lines.append(("", last(intervals, classes, objective)))
    lines.append(("threshold", threshold_sentence(measures.estimator, classes)))
    lines.append(("", returned_sentence(measures.returned_round)))
    return [(name, text) for name, text in lines if text]


def report(
    campaign: Where,
    out: Annotated[Path, option("The HTML file to write.", "FILE", names=["-o", "--out"])] = Path("report.html"),
    title: Annotated[str, option("The heading of the page.", "TEXT")] = "",
    author: Annotated[str, option("Who made the report, to show on the page.", "NAME")] = "",
    by: Annotated[list[str] | None, option("Columns to show errors by, as sex,region.", "COLUMNS")] = None,
    logged: Annotated[
        list[Path] | None,
        option("The log's table, if --by names a column that the model does not use; may be repeated.", "FILE"),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a report of the campaign: a single HTML file that needs no network.

    It opens with what to do (use the model, buy more labels, or stop), and compares the model with logistic regression and boosted trees.

    Example: observal report campaign.db -o report.html --by sex,region
    """
    from observal.report.campaign_report import write_campaign_report

    with progress_bar("writing the report", hidden=as_json) as progress:
        path = write_campaign_report(
            open_campaign(campaign, progress=progress),
            out,
            title,
            _command_line(),
            force,
            author,
            split_list(by) or (),
            logged or (),
        )
    print_result(as_json, {"report": str(path)}, f"Report: {path}")


def _command_line() -> str:
    """Return the command that is running, without secrets, because others will read the report."""
    return join(["observal", *map(hide_secrets, sys.argv[1:])])


def export(
    campaign: Where,
    model: Annotated[
        Path | None, typer.Argument(help="The file to write, such as loans.model or loans.onnx.", metavar="MODEL")
    ] = None,
    label_studio: Annotated[
        Path | None,
        option("Write the open rows as Label Studio tasks instead, with the labelling config beside them.", "FILE"),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the classifier to a file, or the open rows for Label Studio.

    The classifier takes raw rows, as they are in your tables; load it with observal.load_model("loans.model"). A file that ends in .onnx is written for
    programs that run ONNX; CAMPAIGN may then be a model file, too.

    Examples: observal export campaign.db loans.model; observal export campaign.db loans.onnx; observal export campaign.db --label-studio tasks.json
    """
    if (model is None) == (label_studio is None):
        raise typer.BadParameter("give either MODEL or --label-studio FILE.")
    if model is not None and model.suffix.lower() == ".onnx":
        _export_onnx(campaign, model, force, as_json)
        return
    with progress_bar("writing the model", hidden=as_json) as progress:
        opened = open_campaign(campaign, progress=progress)
        if label_studio is not None:
            _export_rows(opened, label_studio, force, as_json)
            return
        assert model is not None
        opened.export(model, force)
    current = opened.status()
    labels = current.labels - current.uncounted
    sentence = f'Model from the log and {labels} labels: {model}. Load it with observal.load_model("{model}").'
    print_result(as_json, {"model": str(model), "labels": labels}, *filter(None, [sentence, current.waiting]))


def _export_onnx(where: str, path: Path, force: bool, as_json: bool) -> None:
    """Write the model of a campaign or of a model file as ONNX."""
    from observal.exchange.onnx_file import write_onnx
    from observal.files import check_target

    check_target(path, force)
    with progress_bar("writing the model", hidden=as_json):
        model = _open_model(where)
        encoder = model.named_steps["table"].encoder if "table" in model.named_steps else None
        write_onnx(path, model[-1].classifier, encoder, force)
    columns = ["X"] if encoder is None else [rule.source for rule in encoder.rules]
    sentence = f"Model: {path}. Inputs: {listed(columns)}. Outputs: prediction, probabilities."
    print_result(as_json, {"model": str(path), "inputs": columns, "outputs": ["prediction", "probabilities"]}, sentence)


def _export_rows(opened: Campaign, path: Path, force: bool, as_json: bool) -> None:
    """Write the open rows for Label Studio."""
    import json

    from observal.exchange.label_tools import LABEL_STUDIO, label_studio_config, label_studio_tasks
    from observal.files import check_target, write_text

    config = path.with_suffix(".xml")
    for target in (path, config):
        check_target(target, force)
    rows = opened.drawn(LABEL_STUDIO)
    write_text(path, json.dumps(label_studio_tasks(rows), indent=1, default=str) + "\n")
    write_text(config, label_studio_config([str(name) for name in opened.settings.classes]) + "\n")
    held = f"{LABEL_STUDIO} holds them until they are answered or released"
    sentence = f"{len(rows)} rows: {path}, labelling config: {config}. {held}."
    print_result(as_json, {"rows": len(rows), "file": str(path), "config": str(config)}, sentence)


def predict(
    model: Annotated[str, typer.Argument(help="A model that `observal export` wrote, or a campaign.", metavar="MODEL")],
    table: Annotated[
        Path,
        typer.Argument(help="The rows: CSV, Excel, Arrow, or Parquet (also a folder or a pattern).", metavar="TABLE"),
    ],
    out: Annotated[Path, option("The table to write, .csv or .parquet.", "FILE", names=["-o", "--out"])] = Path(
        "scored.csv"
    ),
    keep: Annotated[
        list[str] | None,
        option("Columns to copy, as id,name; by default those that the model does not use.", "COLUMNS"),
    ] = None,
    force: Force = False,
    sep: Separator = None,
    decimal: DecimalSign = None,
    encoding: Encoding = None,
    missing: Missing = None,
    as_json: Json = False,
) -> None:
    """Predict the class of each row of a new table.

    The probability is written beside it and, with an objective, whether the row is flagged. Parquet is read and written in parts, so that tables of any size can be scored.

    Example: observal predict loans.model applicants.csv -o scored.csv
    """
    from observal.exchange.scored_table import score_table
    from observal.tables.table_format import TableFormat

    with progress_bar("scoring", hidden=as_json) as progress:
        scored = score_table(
            _open_model(model),
            table,
            out,
            split_list(keep),
            options=TableFormat(sep, decimal, encoding, tuple(missing or ())),
            force=force,
            progress=progress,
        )
    predicted = ", ".join(f"{number:,} {label}" for label, number in scored.predicted.items())
    content = {
        "scored": str(scored.path),
        "rows": scored.rows,
        "predicted": {str(label): number for label, number in scored.predicted.items()},
        "columns": list(scored.columns),
    }
    print_result(as_json, content, f"{count(scored.rows, 'row')}: {scored.path}. Predicted: {predicted}.")


def _open_model(where: str) -> Pipeline:
    """Return the model in a file, or the current one of a campaign."""
    from observal.exchange.estimator import make_model
    from observal.exchange.model_file import load_model
    from observal.files import is_database

    if "://" not in where and not is_database(Path(where)):
        return load_model(where)
    campaign = open_campaign(where)
    return make_model(campaign.estimator, campaign.settings.encoder)


def monitor(
    campaign: Where,
    table: Annotated[
        Path | None, typer.Argument(help="New rows: CSV, Excel, Arrow, or Parquet (also a folder).", metavar="TABLE")
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "Draw rows of TABLE at random and write them to this CSV or Excel file, to label.",
            "FILE",
            names=["-o", "--out"],
        ),
    ] = None,
    n: Annotated[int, option("How many rows to draw.", "N", names=["-n"], min=1)] = 30,
    answers: Annotated[Path | None, option("Store the labels of rows that were drawn, from this file.", "FILE")] = None,
    annotator: Annotator = "anyone",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Check whether the model is still right for new rows.

    The new rows are compared with those of the campaign, and some are drawn at random to be labelled. Labels of drawn rows are kept apart: they train nothing. Without TABLE, show what the checks so far say.

    Examples: observal monitor campaign.db july.csv -o check.csv; observal monitor campaign.db --answers check.csv
    """
    if (table is None and out is not None) or (table is not None and answers is not None):
        raise typer.BadParameter("give TABLE, with or without --out, or --answers FILE.")
    with progress_bar("reading", hidden=as_json) as progress:
        opened = open_campaign(campaign, progress=progress)
        if table is None:
            _print_checks(opened, answers, annotator, as_json)
            return
        if out is not None:
            from observal.files import check_target

            check_target(out, force)
        new = opened.open_table(table)
        found = opened.monitor(new)
        if out is not None:
            _write_sample(opened, opened.draw_sample(new, n, annotator), out, force)
    if as_json:
        drift = {
            "checked": found.drift.checked,
            "found": found.drift.found,
            "auc": found.drift.auc,
            "p_value": found.drift.p_value,
        }
        spread = {"then": asdict(found.then), "now": asdict(found.now)}
        print_json({"table": found.table, "rows": found.rows, "drift": drift, **spread, "check": out and str(out)})
        return
    for sentence in found.sentences():
        say(sentence)
    print_table(["", "log and pool", found.table], found.table_rows())
    if out is None:
        say(
            f"To check the error, draw rows to label: {next_command('monitor', campaign, f'{quote(str(table))} -o check.csv')}"
        )
    else:
        told = next_command("monitor", campaign, f"--answers {quote(str(out))}")
        say(f"{count(n, 'row')} drawn at random: {out}. Fill in the last column, then {told}")


def _write_sample(opened: Campaign, rows: pa.Table, out: Path, force: bool) -> None:
    """Write drawn rows with an empty column for the label."""
    settings = opened.settings
    names = [*rows.column_names, settings.label]
    records = [{**row, settings.label: None} for row in rows.to_pylist()]
    if out.suffix.lower() == ".xlsx":
        write_excel(out, names, records, [*settings.classes, "skip"], settings.format, force)
    else:
        write_csv(out, names, records, settings.format, force)


def _print_checks(opened: Campaign, answers: Path | None, annotator: str, as_json: bool) -> None:
    """Store answers, if there are any, and say what they or all checks so far say about the error."""
    from observal.report.monitoring import error_of_sample, sample_sentences

    samples = (opened.verify_file(answers, annotator),) if answers is not None else opened.samples
    promised = opened.intervals().get("error") if samples else None
    if as_json:
        print_json(
            [
                {"table": s.table, "rows": s.rows, "drawn": len(s.ids), "wrong": s.wrong, "without label": s.unknown}
                | {"error_interval": asdict(error_of_sample(s))}
                for s in samples
            ]
        )
        return
    for sample in samples:
        for sentence in sample_sentences(sample, promised):
            say(sentence)
    if not samples:
        say("No rows were drawn to check the error; give a table of new rows, and -o FILE.")


def history(campaign: Where, as_json: Json = False) -> None:
    """List everything that happened in a campaign, in order.

    Example: observal history campaign.db
    """
    entries = open_campaign(campaign).history()
    if as_json:
        print_json([{**vars(entry), "details": dict(entry.details)} for entry in entries])
        return
    rows = [(e.sequence, e.time[:19].replace("T", " "), e.actor, e.kind, e.text) for e in entries]
    print_table(["", "time (UTC)", "who", "what", ""], rows)


def check(campaign: Where, as_json: Json = False) -> None:
    """Check that nothing in a campaign was changed after it was written.

    It reads the whole campaign.

    Example: observal check campaign.db
    """
    with progress_bar("reading", hidden=as_json):
        result = open_campaign(campaign).check()
    print_result(as_json, asdict(result), result)


def backup(
    campaign: Where,
    copy: Annotated[Path, typer.Argument(help="The file to write, such as monday.db.", metavar="COPY")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Copy a campaign to a file, with every answer so far, also while others use it.

    Example: observal backup campaign.db monday.db
    """
    open_campaign(campaign).backup(copy, force)
    labels = open_campaign(str(copy)).labels
    print_result(as_json, {"copy": str(copy), "labels": labels}, f"Copy with {count(labels, 'label')}: {copy}.")
