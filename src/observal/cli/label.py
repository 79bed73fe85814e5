"""The commands for labelling: rows and answers as files, or on a page; and who labels, how much."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from itertools import chain
from itertools import count as count_from
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from observal.cli.options import (
    Annotator,
    ColumnsHelp,
    Dask,
    Encoding,
    Instructions,
    Json,
    Missing,
    Separator,
    Where,
    open_campaign,
    option,
    split_list,
)
from observal.cli.output import (
    format_cells,
    next_command,
    print_json,
    print_result,
    print_table,
    progress_bar,
    say,
    write_csv,
    write_excel,
)
from observal.problem.words import count

if TYPE_CHECKING:
    from observal.campaign import Campaign
    from observal.exchange.label_studio_api import LabelStudioApi

PORT = 8787
Name = Annotated[str, typer.Argument(help="Name of the person.", metavar="NAME")]
MOST_COLUMNS = 6  # columns of the pool that ask shows on a terminal


def ask(
    campaign: Where,
    n: Annotated[int, option("Show at most this many rows.", "N", names=["-n"], min=1)] = 20,
    columns: Annotated[
        str | None, option("Columns of the pool to show, as A,B,C; by default all of them.", "COLUMNS")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV with an empty label column to fill in.")] = False,
    as_json: Json = False,
    annotator: Annotator = "anyone",
    out: Annotated[
        Path | None,
        option(
            "Write to this file: Excel if it ends in .xlsx, JSON with --json, otherwise CSV. A file whose answers were all told is "
            "replaced; beside any other, a file with a number is written, such as labels-2.csv.",
            "FILE",
            names=["-o", "--out"],
        ),
    ] = None,
    dask: Dask = None,
) -> None:
    """Show rows to label now.

    Asking again gives the same rows until they are answered. Rows that other annotators hold are not shown. If others hold all
    open rows, you get the next ones, chosen ahead.

    Example: observal ask campaign.db -n 20 -o labels.xlsx (or labels.csv), then fill in the last column
    """
    if as_csv and as_json:
        raise typer.BadParameter("give --csv or --json, not both.")
    in_excel = out is not None and out.name.lower().endswith(".xlsx")
    if in_excel and (as_csv or as_json):
        raise typer.BadParameter("a file that ends in .xlsx is an Excel workbook; leave out --csv and --json.")
    if out is not None:
        from observal.files import check_target

        check_target(out, force=True)
    with progress_bar("choosing rows", hidden=as_json or as_csv) as progress:
        opened = open_campaign(campaign, dask, progress)
        rows = opened.ask(n, annotator)
    replaces = False
    if out is not None and rows:
        out, replaces = _free_path(opened, out, annotator)
    names, records = rows.to_fill_in(split_list(columns))
    id_, *raw, round_, reason, allowed, _ = names
    like, answers = rows.table_format, [*rows.classes, "skip"]
    if as_json:
        about = {"round": rows.round, "finished": rows.finished, "note": rows.note, "allowed": answers}
        print_json(
            {**about, "rows": [{k: v for k, v in r.items() if k != allowed} for r in records]}, out, force=replaces
        )
    elif in_excel and out is not None:
        if rows:
            write_excel(out, names, records, answers, like, force=replaces)
    elif as_csv or out:
        if rows or not out:
            write_csv(out, names, records, like, force=replaces)
    elif rows:
        visible = raw if columns else raw[:MOST_COLUMNS]
        header = [id_, *visible, round_, reason]
        print_table(header, [["" if v is None else v for v in row] for row in format_cells(header, records, like)])
        if hidden := len(raw) - len(visible):
            say(f"{hidden} more columns are not shown; use --columns, --csv or --json to see them.")
        say(f"Allowed answers: {rows.allowed}")
    if rows.note and not as_json:
        say(rows.note, error=as_csv and not out)
    if out and rows:
        say(f"{count(len(rows), 'row')} to label: {out}", error=as_json)
    if 0 < len(rows) < n:
        say(f"Fewer than {n}: the round has no more rows; answer these first.", error=True)


def _free_path(campaign: Campaign, out: Path, annotator: str) -> tuple[Path, bool]:
    """Return where no answers would be lost, the path or the next with a number (labels-2.csv), and whether a file is replaced there."""
    paths = chain([out], (out.with_stem(f"{out.stem}-{number}") for number in count_from(2)))
    for path in paths:
        if path != out and not path.exists():
            say(f"{out} was not replaced: it has no answers yet, or some that are not stored yet.", error=True)
        if not path.exists() or campaign.knows_file(path, annotator):
            break
    return path, path.exists()


def tell(
    campaign: Where,
    labels: Annotated[
        str,
        typer.Argument(
            help="CSV, Excel or JSON file with ids and labels; - reads CSV from standard input.", metavar="LABELS"
        ),
    ],
    annotator: Annotator = "anyone",
    correct: Annotated[bool, typer.Option("--correct", help="Let a new label replace an earlier one.")] = False,
    sep: Separator = None,
    encoding: Encoding = None,
    missing: Missing = None,
    as_json: Json = False,
) -> None:
    """Store the labels from a file: all of them or, if a line is wrong, none.

    The word "skip" skips a row. A blank label means "not yet". Telling the same file twice changes nothing.

    Example: observal tell campaign.db labels.csv --annotator ann
    """
    opened = open_campaign(campaign)
    source, text = ("standard input", sys.stdin.buffer.read()) if labels == "-" else (labels, None)
    receipt = opened.tell_file(source, annotator, correct, text, sep=sep, encoding=encoding, missing=missing or ())
    status = opened.status()
    budget = f" of {status.label_budget}" if status.label_budget is not None else ""
    progress = f"{status.labels}{budget} labels, and {count(status.open_rows, 'row is', 'rows are')} open"
    sentence = f"{receipt} The campaign has {progress}."
    if not receipt:
        sentence = f"{'Standard input' if labels == '-' else labels} has no answers yet; nothing was stored."
    content = {**asdict(receipt), "bought": status.labels, "label_budget": status.label_budget}
    print_result(as_json, content, sentence)


def release(
    campaign: Where,
    annotator: Annotated[str, option("The person whose rows to take back.", "NAME")],
    as_json: Json = False,
) -> None:
    """Take back the open rows that an annotator holds, so others can label them.

    If the annotator answers anyway, the answer counts.

    Example: observal release campaign.db --annotator ann
    """
    released = open_campaign(campaign).release(annotator)
    pronoun = "it" if released == 1 else "them"
    sentence = f"{count(released, 'row')} taken back from {annotator}; others can have {pronoun} now."
    if released == 0:
        sentence = f"{annotator} holds no open rows; nothing was taken back."
    print_result(as_json, {"released": released}, sentence)


def extend(
    campaign: Where,
    budget: Annotated[int | None, option("The new label budget, in total.", "N", min=1)] = None,
    budget_cost: Annotated[
        float | None, option("What all labels together may cost, in total.", "AMOUNT", min=0)
    ] = None,
    pool: Annotated[
        Path | None, option("More rows to ask about, with the pool's columns: CSV, Excel, Parquet or Arrow.", "FILE")
    ] = None,
    propensity: Annotated[
        str | None,
        option(
            "Propensity of the new rows: a column, or a number for all of them; by default as in the pool.", "COLUMN"
        ),
    ] = None,
    annotator: Annotator = "anyone",
    as_json: Json = False,
) -> None:
    """Raise the label budget of a campaign, or add rows to its pool.

    A higher budget makes intervals somewhat wider: they then hold at all rounds, however many follow. New rows become part of the
    population that intervals are about.

    Example: observal extend campaign.db --budget 500 --pool more.csv
    """
    if budget is None and budget_cost is None and pool is None:
        raise typer.BadParameter("give --budget N, --budget-cost AMOUNT, --pool FILE or several of them.")
    opened = open_campaign(campaign)
    before = opened.status()
    with progress_bar("adding rows", hidden=as_json or pool is None):
        opened.extend(budget, annotator, pool=pool, propensity=_number_or_name(propensity), budget_cost=budget_cost)
    status = opened.status()
    added = f"{status.pool_rows - before.pool_rows} rows were added; the pool now has {status.pool_rows}."
    raised = f"The label budget is now {status.label_budget}; the campaign has {status.labels} labels."
    sentences = [*([added] if pool is not None else []), *([raised] if budget is not None else [])]
    sentences += [f"Labels may now cost more: {status.cost_words()}."] if budget_cost is not None else []
    content: dict[str, object] = {
        "label_budget": status.label_budget,
        "labels": status.labels,
        "pool_rows": status.pool_rows,
    }
    content |= {} if budget_cost is None else {"budget_cost": status.budget_cost, "spent": status.spent}
    print_result(as_json, content, *sentences)


def _number_or_name(propensity: str | None) -> str | float | None:
    try:
        return None if propensity is None else float(propensity)
    except ValueError:
        return propensity


def serve(
    campaign: Where,
    host: Annotated[
        str, option("Address to listen on; add people before you let other machines in.", "HOST")
    ] = "127.0.0.1",
    port: Annotated[int, option("The port; 0 takes a free one.", "N", min=0, max=65535)] = PORT,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    title: Annotated[str, option("Title of the page; by default the name of the label column.", "TEXT")] = "",
    lease: Annotated[
        float, option("Minutes after which the rows of a person who has left can go to others.", "MINUTES", min=0.1)
    ] = 15.0,
    images: Annotated[Path | None, option("The folder of images, if it was moved.", "FOLDER")] = None,
    instructions: Instructions = None,
    columns_help: ColumnsHelp = None,
    allow_host: Annotated[
        list[str] | None,
        option("Another host name under which browsers may reach the server; may be repeated.", "HOST"),
    ] = None,
    label_studio: Annotated[
        str | None,
        option(
            "Label in this Label Studio as well; put your key into the environment variable LABEL_STUDIO_API_KEY.",
            "ADDRESS",
        ),
    ] = None,
    project: Annotated[
        int | None, option("With --label-studio: an existing project; by default one is made.", "N", min=1)
    ] = None,
    url: Annotated[
        str,
        option(
            "With --label-studio: the address at which Label Studio reaches this server, if it runs on another machine.",
            "ADDRESS",
        ),
    ] = "",
) -> None:
    """Label in a browser: serve a campaign's rows on a page until you press Ctrl+C.

    It prints a link that signs you in once.

    Examples: observal serve campaign.db --open; observal serve campaign.db --label-studio http://localhost:8080
    """
    from observal.server.serving import serve as run

    if label_studio is None and (project is not None or url):
        raise typer.BadParameter("--project and --url go with --label-studio ADDRESS.")

    def ready(link: str, place: str) -> None:
        say(f"The labelling page: {link}")
        if place:
            say(f"The project in Label Studio: {place}")
        say("The link works once. Ctrl+C stops the server; every answer is already stored.")
        sys.stdout.flush()  # a program that started us may be waiting for the link
        if open_:
            import webbrowser

            webbrowser.open(link)

    run(
        campaign,
        host,
        port,
        title=title,
        lease=lease,
        images=images,
        instructions=instructions,
        columns_help=columns_help,
        names=allow_host or (),
        label_studio=_find_label_studio(label_studio),
        project=project,
        url=url.rstrip("/"),
        ready=ready,
        warn=lambda sentence: say(sentence, error=True),
    )


def _find_label_studio(address: str | None) -> LabelStudioApi | None:
    """Return the Label Studio at an address, with the key in the environment."""
    from observal.errors import InvalidInput
    from observal.exchange.label_studio_api import LabelStudioApi

    if address is None:
        return None
    key = os.environ.get("LABEL_STUDIO_API_KEY", "").strip()
    if not key:
        raise InvalidInput(
            "The environment variable LABEL_STUDIO_API_KEY is empty; set it to the access token on your account page in Label Studio."
        )
    return LabelStudioApi(address, key)


annotator = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@annotator.callback()
def _annotator() -> None:
    """Say who may use the labelling page."""


@annotator.command()
def add(
    campaign: Where,
    name: Name,
    role: Annotated[
        Literal["owner", "annotator"] | None,
        typer.Option(help="An owner can also review, settle disagreements and export; annotator by default."),
    ] = None,
    url: Annotated[
        str | None, option("Address at which people reach the server, to print a complete link.", "ADDRESS")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add a person, and print a link that signs them in once. Adding them again makes a new link.

    Example: observal annotator add campaign.db ann --url https://labels.example.org
    """
    from observal.journal.sql.people import add_person
    from observal.journal.sql.store import open_store

    with open_store(campaign).writing() as connection:
        token = add_person(connection, name, role)
    link = f"{(url or '').rstrip('/')}/login?token={token}"
    after = "" if url else " by adding this to the address that observal serve prints"
    print_result(as_json, {"name": name, "link": link}, f"{name} can sign in once within 7 days{after}: {link}")


@annotator.command()
def revoke(campaign: Where, name: Name, as_json: Json = False) -> None:
    """Sign a person out everywhere, at once. What they answered stays.

    Example: observal annotator revoke campaign.db ann
    """
    from observal.journal.sql.people import revoke_person
    from observal.journal.sql.store import open_store

    with open_store(campaign).writing() as connection:
        revoke_person(connection, name)
    command = next_command("release", campaign, f"--annotator {quote(name)}")
    print_result(as_json, {"revoked": name}, f"{name} is signed out. Rows they hold: {command}")


@annotator.command("list")
def list_(campaign: Where, as_json: Json = False) -> None:
    """List the people who may use the labelling page.

    Example: observal annotator list campaign.db
    """
    from observal.journal.sql.people import list_people
    from observal.journal.sql.store import open_store

    with open_store(campaign).reading() as connection:
        people = list_people(connection)
    if as_json:
        print_json([asdict(person) for person in people])
        return
    if not people:
        say("No people were added yet; add them with `observal annotator add`.")
        return
    rows = [(p.name, p.role, p.added[:10], p.revoked[:10] if p.revoked else "") for p in people]
    print_table(["name", "role", "added", "revoked"], rows)
