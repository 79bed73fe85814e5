"""The command status, and how the status of a campaign is printed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from observal.cli.options import Where
from observal.cli.output import Json, print_json, print_pairs, progress_bar


def status(
    campaign: Where,
    interval: Annotated[
        bool, typer.Option("--interval", help="Fit the classifier and show the interval around its error.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the progress of a campaign.

    Example: observal status campaign.db --interval
    """
    from observal.campaign import Campaign

    opened = Campaign.open(campaign)
    found: dict[str, Any] = {}
    returned: int | None = None
    model: Any = None
    if interval:
        with progress_bar("fitting", hidden=as_json):
            found, returned, model = opened.intervals(), opened.returned_round, opened.estimator
    show_status(opened.status(), as_json, found, returned, model)


def show_status(
    found: Any, as_json: bool, intervals: dict[str, Any] | None = None, returned: int | None = None, model: Any = None
) -> None:
    """Print the status, with the measures of the classifier on top.

    `returned` is the earlier round that the classifier `model` is from, if it is not from the last one.
    """
    lines: list[tuple[str, str]] = found.lines()
    if intervals:
        from observal.intervals.contradiction import contradiction
        from observal.intervals.measures import beats_baseline

        contradicted = contradiction(intervals) is not None
        if as_json:
            measured = {
                "error_interval": asdict(intervals["error"]),
                "contradicted": contradicted,
                "beats_baseline": beats_baseline(intervals),
                "returned_round": returned,
                "threshold": getattr(model, "threshold", None),
                "intervals": {name: asdict(one) for name, one in intervals.items()},
            }
            print_json(found.to_dict() | measured)
            return
        from observal.report.measures import returned_sentence, threshold_sentence

        of_model = [("threshold", threshold_sentence(model, found.classes)), ("", returned_sentence(returned))]
        lines = [*_measured(found, intervals, contradicted), *((name, text) for name, text in of_model if text), *lines]
    if as_json:
        print_json(found.to_dict())
    else:
        print_pairs(lines)


def _measured(found: Any, intervals: dict[str, Any], contradicted: bool) -> list[tuple[str, str]]:
    from observal.report.measures import advice, baseline_sentence, confusion_lines, measures_of

    error = intervals["error"]
    said = (
        f"between {error.low:.1%} and {error.high:.1%} ({error.confidence:.0%} interval), estimate {error.estimate:.1%}"
    )
    lines = [("error", said)]
    if contradicted:
        lines.append(("warning", "rows picked at random contradict the log; do not trust the interval"))
    lines += [("", text) for text in (baseline_sentence(intervals, found.classes, found.objective),) if text]
    lines += [
        (one.name, f"{one.words()}: {one.about}")
        for one in measures_of(intervals, found.classes, found.objective)
        if one.name != "error"
    ]
    matrix = confusion_lines(intervals, found.classes)
    lines += zip(["confusion", *[""] * len(matrix)], matrix, strict=False)
    return lines + [("", text) for text in (advice(intervals, found.classes, found.objective),) if text]
