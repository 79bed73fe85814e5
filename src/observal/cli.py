"""The command line: thin; every command is also a function."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from observal.errors import ObservalError, VerificationFailed

app = typer.Typer(
    help="Active learning from observational data: which rows to have labelled when an old policy chose the labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
Jobs = Annotated[int | None, typer.Option(help="Processes to use; all cores by default.", min=1)]


@app.callback()
def _options(debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False) -> None:
    # main() reads --debug from the arguments, because it must know before a command fails.
    del debug


@app.command()
def verify(
    trials: Annotated[int, typer.Option(help="Trials for each claim that has trials.", min=50)] = 2000,
    only: Annotated[str | None, typer.Option(help="Check one claim only, by its name in the table.")] = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Measure every worked case and claim of the paper, promised against measured.

    Exits with 1 if a claim fails. Example: observal verify --trials 200 --only best-kept
    """
    from observal.experiments.verify import verify as run_verify

    with progress_bar("verifying", hidden=as_json) as progress:
        report = run_verify(trials=trials, seed=seed, only=only, progress=progress, jobs=jobs)
    if as_json:
        print(json.dumps(report.to_dict(), indent=2))
    else:
        print_table(["claim", "promised", "measured", "trials", "fails by chance", ""], report.rows())
    if not report.passed:
        failed = [outcome.claim for outcome in report.outcomes if not outcome.passed]
        raise VerificationFailed(
            f"{len(failed)} of {len(report.outcomes)} claims did not hold ({', '.join(failed)}); see the table."
        )


@app.command()
def ablate(
    trials: Annotated[int, typer.Option(help="Runs per variant, on the same draws.", min=2)] = 200,
    gamma: Annotated[float, typer.Option(help="The practical γ1 of the candidate sets.")] = 0.1,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Switch off the parts of Algorithm 1 one by one and print labels asked and final error.

    The distribution, and why each part matters on it, is in docs/exact.md. Example: observal ablate --trials 50
    """
    from observal.experiments import ablation

    with progress_bar("running", hidden=as_json) as progress:
        rows = ablation.ablate(trials, gamma, seed, jobs, progress)
    if as_json:
        print(json.dumps(ablation.to_dicts(rows), indent=2))
        return
    print_table(
        ["Algorithm 1 …", "labels asked", "final error, %", "of it above the best, %"],
        [
            (
                r.variant,
                f"{r.labels:.0f} ± {r.labels_se:.0f}",
                f"{100 * r.final_error:.2f}",
                f"{100 * r.excess_error:.2f} ± {100 * r.excess_error_se:.2f}",
            )
            for r in rows
        ],
    )


@app.command()
def reproduce(
    shape: Annotated[
        Literal["triangular", "uniform"], typer.Option(help="Of the rows: as in the paper's figure, or as in its text.")
    ] = "triangular",
    trials: Annotated[int, typer.Option(help="Trials; new data in each.", min=2)] = 16,
    out: Annotated[Path, typer.Option(help="Folder for results.json, curves.csv and the figure.")] = Path(
        "out/reproduce"
    ),
    ablate: Annotated[bool, typer.Option("--ablate", help="Add ActiveVC with each component removed.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what an interrupted run has finished.")] = False,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Make the paper's figure: Passive, Active18 and ActiveVC under two logging policies, in about a minute.

    Example: observal reproduce --out out/reproduce, and after Ctrl-C the same with --resume
    """
    from observal.experiments.reproduce import Specification
    from observal.experiments.reproduce import reproduce as run_reproduce

    spec = Specification(shape=shape, trials=trials, seed=seed, ablate=ablate)
    with progress_bar("running", hidden=as_json) as progress:
        outcome = run_reproduce(spec, out, jobs, resume, progress)
    if as_json:
        print(json.dumps(outcome.to_dict()))
        return
    print_table(outcome.header, outcome.rows())
    print(outcome.caption)
    print(f"{outcome.seconds:.0f} s. Figure: {out / 'figure.png'}, {out / 'figure.svg'}")


@app.command()
def benchmark(
    data: Annotated[
        Path | None, typer.Option(help="Folder of NAME.npz files; $OBSERVAL_DATA by default.", envvar="OBSERVAL_DATA")
    ] = None,
    trials: Annotated[int, typer.Option(help="Trials in each cell.")] = 8,
    rows: Annotated[int, typer.Option(help="The most rows of a data set.")] = 6000,
    only: Annotated[str | None, typer.Option(help="Only cells whose name contains this.")] = None,
    peers: Annotated[str | None, typer.Option(help="Comma-separated peers; all that are installed by default.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.json and the figure.")] = Path("out/benchmark"),
    resume: Annotated[bool, typer.Option("--resume", help="Keep what an interrupted run has finished.")] = False,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Compare our methods with other libraries' on the same rows, with the same budget and model family.

    Four generated scenarios, and every data set in --data under four logging policies.
    Example: observal benchmark --data DIR --trials 8, and for a first look: observal benchmark --only linear --trials 2
    """
    from observal.experiments.benchmark import Specification
    from observal.experiments.benchmark import benchmark as run_benchmark

    chosen = None if peers is None else tuple(name.strip() for name in peers.split(","))
    spec = Specification(data=data, trials=trials, rows=rows, only=only, peers=chosen, seed=seed)
    with progress_bar("running", hidden=as_json) as progress:
        report = run_benchmark(spec, out, jobs, resume, progress)
    if as_json:
        print(json.dumps(report.to_dict()))
        return
    print_table(report.header, report.rows())
    for line in report.summary():
        print(line)
    print(f"Figure: {out / 'figure.png'}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("out/demo"),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run the main job on a real data set that scikit-learn ships, and draw what happened.

    Example: observal demo --out out/demo
    """
    from observal.experiments.demo import run_demo

    with progress_bar("running", hidden=as_json) as progress:
        outcome = run_demo(out, seed, progress)
    if as_json:
        print(json.dumps(outcome.to_dict(), indent=2))
        return
    print(outcome.summary)
    print_table(["", "labels bought", "test error, %"], outcome.rows())
    print(f"Figure: {outcome.figure}")


def print_table(header: list[str], rows: Any) -> None:
    """Print a table: with rules on a terminal, plain and tab-free when piped."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))  # Text: brackets in a formula are not markup
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@contextmanager
def progress_bar(description: str, hidden: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a function to call with (done, total), shown on standard error with the time left."""
    try:
        with _shown_progress(description) if sys.stderr.isatty() and not hidden else nullcontext() as progress:
            yield progress
    except KeyboardInterrupt:
        print("observal: interrupted; where a command has --resume, what was finished is kept.", file=sys.stderr)
        raise typer.Exit(130) from None


@contextmanager
def _shown_progress(description: str) -> Iterator[Callable[..., None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)

        def update(done: int, total: int, what: str = description) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield update


def main() -> None:
    """Run the command line: 0 when all is well, 1 for an error in one line, 2 for a wrong call."""
    try:
        app()
    except ObservalError as error:
        if "--debug" in sys.argv:
            raise
        print(f"observal: {error}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        if "--debug" in sys.argv:
            raise
        print(f"observal: {error.filename or 'a file'} cannot be used: {error.strerror or error}.", file=sys.stderr)
        sys.exit(1)
