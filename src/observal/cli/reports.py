"""The commands diagnose and report: whether a log can be trusted, and the results of a campaign."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from shlex import join
from typing import Annotated, Any

import typer

from observal.cli.options import (
    Chances,
    Dask,
    DecimalSign,
    Encoding,
    EstimateChances,
    Features,
    Missing,
    Separator,
    Where,
    check_dask,
    executor,
    listed,
    open_campaign,
)
from observal.cli.output import Force, Json, Seed, print_json, progress_bar, say


def diagnose(
    logged: Annotated[list[Path], typer.Argument(help="Tables of the log, or one campaign.")],
    pool: Annotated[Path | None, typer.Option(help="Table of the pool: the rows you can ask about.")] = None,
    label: Annotated[str | None, typer.Option(help="Column with the label, empty if it was not revealed.")] = None,
    propensity: Chances = None,
    estimate_propensity: EstimateChances = False,
    id: Annotated[str | None, typer.Option(help="Column with the row ids; it is not used as a feature.")] = None,
    features: Features = None,
    target_error: Annotated[
        float | None, typer.Option(help="An error, to estimate how many labels it takes to reach it.")
    ] = None,
    sep: Separator = None,
    decimal: DecimalSign = None,
    encoding: Encoding = None,
    missing: Missing = None,
    dask: Dask = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say whether a log can be trusted: overlap, weights, calibration, drift, hidden confounding.

    Example: observal diagnose logged.csv --pool pool.csv --label y --propensity q0 --id id --target-error 0.1;
    for a campaign: observal diagnose campaign.db
    """
    from observal.diagnosis import diagnose as run_diagnose

    with progress_bar("reading", hidden=as_json) as progress:
        if pool is None or label is None:
            from observal.tables.reading import SUFFIXES

            is_table = logged[0].name.lower().endswith(SUFFIXES)
            if len(logged) > 1 or pool is not None or label is not None or is_table:
                raise typer.BadParameter("tables need --pool, --label and --propensity; a campaign needs none of them.")
            log, rows, names, dates, notes = _of_campaign(str(logged[0]), dask, progress)
        else:
            chances: Any = "estimate" if estimate_propensity else (propensity or [])
            if not chances or (propensity and estimate_propensity):
                raise typer.BadParameter("give either --propensity COLUMN or --estimate-propensity.")
            from observal.tables import TableRoles
            from observal.tables.formats import Format

            given = Format(sep, decimal, encoding, tuple(missing or ()))  # type: ignore[arg-type]  # checked there
            roles = TableRoles(label, None, id, None, None if features is None else tuple(listed(features) or ()))
            chosen = chances[0] if len(chances) == 1 else chances
            loaded = _of_tables(logged, pool, roles, chosen, given, seed, dask, progress)
            log, rows, names, notes = loaded.logged, loaded.pool, loaded.encoder.names, loaded.notes
            dates = loaded.encoder.dates
        found = run_diagnose(
            log, rows, feature_names=names, date_features=dates, target_error=target_error, random_state=seed
        )
    if as_json:
        print_json({**found.to_dict(), "notes": list(notes)})
        return
    say(found.text(), lines=True)
    for note in notes:
        say(f"Note: {note}")


def _of_tables(
    logged: list[Path], pool: Path, roles: Any, propensity: Any, given: Any, seed: int, dask: str | None, progress: Any
) -> Any:
    """Return log and pool; they stay in their files if these are large, or if a cluster reads them."""
    from observal.tables import load_problem
    from observal.tables.in_place import can_stay, is_large, load_in_place
    from observal.tables.reading import read_tables

    tables = [*logged, pool]
    check_dask(dask, logged, pool, propensity, given)
    if dask is not None or (can_stay(logged, propensity, given) and is_large(tables)):
        return load_in_place(logged[0], pool, roles, propensity=propensity, executor=executor(dask, progress))
    *logs, rest = read_tables(tables, roles.id, roles.label, given)
    return load_problem(logs, rest, roles, propensity=propensity, random_state=seed)


def _of_campaign(where: str, dask: str | None, progress: Any) -> tuple[Any, Any, Any, Any, Any]:
    from observal.tables.encoding import date_names

    campaign = open_campaign(where, dask, progress)
    problem, settings = campaign.problem, campaign.settings
    names, dates = settings["features"], date_names(settings["encoder"])
    return problem.logged, problem.pool, names, dates, campaign.status().notes


def report(
    campaign: Where,
    out: Annotated[Path, typer.Option("-o", "--out", help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="The heading of the page.")] = "",
    author: Annotated[str, typer.Option(help="Who made the report, to show on the page.")] = "",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a report of the campaign: a single HTML file that needs no network.

    Example: observal report campaign.db -o report.html
    """
    from observal.campaign import Campaign
    from observal.report.campaign_report import write_campaign_report

    with progress_bar("fitting", hidden=as_json):
        path = write_campaign_report(Campaign.open(campaign), out, title, _typed(), force, author)
    if as_json:
        print_json({"report": str(path)})
        return
    say(f"Report: {path}")


def _typed() -> str:
    """Return the command as it was typed, without the password of a database, because others will read the report."""
    return re.sub(r"(://[^/@\s]*?):[^/\s]*@", r"\1:***@", join(["observal", *sys.argv[1:]]))
