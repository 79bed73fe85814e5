"""The commands of the labelling page: serve, and annotator add, revoke and list."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer

from observal.cli.options import Where
from observal.cli.output import Json, print_json, print_table, say

PORT = 8787
Name = Annotated[str, typer.Argument(help="Name of the person.")]


def serve(
    campaign: Where,
    host: Annotated[
        str, typer.Option(help="Address to listen on; to let other machines in, add people first.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = PORT,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    title: Annotated[str, typer.Option(help="Title of the page; the campaign's name by default.")] = "",
    lease: Annotated[
        float, typer.Option(help="Minutes after which the rows of somebody who has left can go to others.", min=0.1)
    ] = 15.0,
    images: Annotated[Path | None, typer.Option(help="The folder of images, if it was moved.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name that browsers may use for the server; may be repeated.")
    ] = None,
) -> None:
    """Label in a browser: serve a campaign's rows on a page until you press Ctrl+C.

    It prints a link that signs you in once. Example: observal serve campaign.db --open
    """
    from observal.server.serving import serve as run

    def ready(link: str) -> None:
        say(f"The labelling page: {link}")
        say("The link works once. Ctrl+C stops the server; every answer is already stored.")
        sys.stdout.flush()  # a program that started us may be waiting for the link
        if open_:
            import webbrowser

            webbrowser.open(link)

    run(campaign, host, port, title=title, lease=lease, images=images, names=allow_host or (), ready=ready)


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
        typer.Option(help="An owner also reviews, decides and exports; annotator by default."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Address at which people reach the server, to print a complete link.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add a person, and print a link that signs them in once. Adding them again makes a new link.

    Example: observal annotator add campaign.db ann --url https://labels.example.org
    """
    from observal.journal.sql.people import add_person
    from observal.journal.sql.store import open_store

    with open_store(campaign).writing() as transaction:
        token = add_person(transaction, name, role)
    link = f"{(url or '').rstrip('/')}/login?token={token}"
    if as_json:
        print_json({"name": name, "link": link})
        return
    after = "" if url else " by adding this to the address that observal serve prints"
    say(f"{name} can sign in once within 7 days{after}: {link}")


@annotator.command()
def revoke(campaign: Where, name: Name, as_json: Json = False) -> None:
    """Sign a person out everywhere, at once. What they answered stays.

    Example: observal annotator revoke campaign.db ann
    """
    from observal.journal.sql.people import revoke_person
    from observal.journal.sql.store import open_store

    with open_store(campaign).writing() as transaction:
        revoke_person(transaction, name)
    if as_json:
        print_json({"revoked": name})
        return
    say(f"{name} is signed out. Rows they hold: observal release {quote(campaign)} --annotator {quote(name)}")


@annotator.command("list")
def list_(campaign: Where, as_json: Json = False) -> None:
    """List everybody who was added.

    Example: observal annotator list campaign.db
    """
    from observal.journal.sql.people import list_people
    from observal.journal.sql.store import open_store

    with open_store(campaign).reading() as transaction:
        found = list_people(transaction)
    if as_json:
        print_json([asdict(person) for person in found])
        return
    if not found:
        say("Nobody was added yet; add people with `observal annotator add`.")
        return
    rows = [(p.name, p.role, p.added[:10], p.revoked[:10] if p.revoked else "") for p in found]
    print_table(["name", "role", "added", "revoked"], rows)
