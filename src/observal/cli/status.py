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
    if interval:
        with progress_bar("fitting", hidden=as_json):
            found, returned = opened.intervals(), opened.returned_round
    show_status(opened.status(), as_json, found, returned)


def show_status(
    found: Any, as_json: bool, intervals: dict[str, Any] | None = None, returned: int | None = None
) -> None:
    """Print the status, with the measures of the classifier on top.

    `returned` is the earlier round that the classifier is from, if it is not from the last one.
    """
    lines: list[tuple[str, str]] = found.lines()
    if intervals:
        from observal.methods.contradiction import contradiction
        from observal.methods.measures import beats_baseline

        contradicted = contradiction(intervals) is not None
        if as_json:
            measured = {
                "error_interval": asdict(intervals["error"]),
                "contradicted": contradicted,
                "beats_baseline": beats_baseline(intervals),
                "returned_round": returned,
                "intervals": {name: asdict(one) for name, one in intervals.items()},
            }
            print_json(found.to_dict() | measured)
            return
        from observal.report.measures import returned_sentence

        earlier = [("", text) for text in (returned_sentence(returned),) if text]
        lines = [*_measured(found, intervals, contradicted), *earlier, *lines]
    if as_json:
        print_json(found.to_dict())
    else:
        print_pairs(lines)


def _measured(found: Any, intervals: dict[str, Any], contradicted: bool) -> list[tuple[str, str]]:
    from observal.report.measures import advice, baseline_sentence, measures_of

    error = intervals["error"]
    said = (
        f"between {error.low:.1%} and {error.high:.1%} ({error.confidence:.0%} interval), estimate {error.estimate:.1%}"
    )
    lines = [("error", said)]
    if contradicted:
        lines.append(("warning", "rows picked at random contradict the log; do not trust the interval"))
    lines += [("", text) for text in (baseline_sentence(intervals, found.classes),) if text]
    lines += [
        (one.name, f"{one.words()}: {one.about}")
        for one in measures_of(intervals, found.classes, found.objective)
        if one.name != "error"
    ]
    return lines + [("", text) for text in (advice(intervals, found.classes, found.objective),) if text]
