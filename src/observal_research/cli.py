"""The command line ``observal-research``: verify, ablate, reproduce and benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from observal.cli.app import make_app, run
from observal.cli.options import Dask, Jobs, Json, Seed, make_executor, split_list
from observal.cli.output import print_json, print_table, progress_bar, say
from observal.errors import InvalidInput, ObservalError


class VerificationFailed(ObservalError):
    """A claim of the paper did not hold when measured."""


def verify(
    trials: Annotated[int, typer.Option(help="Trials for each claim that is checked by simulation.", min=50)] = 2000,
    only: Annotated[str | None, typer.Option(help="Check only this claim, named as in the table.")] = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Check every worked example and claim of the paper, and print what was promised and what was measured.

    Exits with 1 if a claim fails. Example: observal-research verify --trials 200 --only best-kept
    """
    from observal_research.verify import verify as run_verify

    with progress_bar("verifying", hidden=as_json) as progress:
        report = run_verify(trials=trials, random_state=seed, only=only, progress=progress, jobs=jobs)
    if as_json:
        print_json(report.to_dict())
    else:
        print_table(["claim", "promised", "measured", "trials", "fails by chance", ""], report.rows())
    if not report.passed:
        failed = [outcome.claim for outcome in report.outcomes if not outcome.passed]
        raise VerificationFailed(
            f"{len(failed)} of {len(report.outcomes)} claims did not hold ({', '.join(failed)}); see the table."
        )


def ablate(
    trials: Annotated[int, typer.Option(help="Runs for each variant, on the same draws.", min=2)] = 200,
    gamma: Annotated[float, typer.Option(help="The practical γ1 of the candidate sets.")] = 0.1,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Switch off the parts of Algorithm 1 one by one, and print the labels asked for and the final error.

    docs/exact.md describes the distribution and why each part matters on it. Example: observal-research ablate --trials 50
    """
    from observal_research import ablation

    with progress_bar("running", hidden=as_json) as progress:
        rows = ablation.ablate(trials, gamma, seed, jobs, progress)
    if as_json:
        print_json(ablation.to_dicts(rows))
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


def reproduce(
    shape: Annotated[
        Literal["triangular", "uniform"],
        typer.Option(help="Shape of the data: triangular as in the paper's figure, uniform as in its text."),
    ] = "triangular",
    trials: Annotated[int, typer.Option(help="Number of trials, each with new data.", min=2)] = 16,
    out: Annotated[Path, typer.Option(help="Folder for results.json, curves.csv and the figure.")] = Path(
        "out/reproduce"
    ),
    ablate: Annotated[bool, typer.Option("--ablate", help="Add ActiveVC with each component removed.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    dask: Dask = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Make the paper's figure: Passive, Active18 and ActiveVC under two logging policies, in under a minute.

    Example: observal-research reproduce --out out/reproduce; to go on after Ctrl-C, add --resume
    """
    from observal_research.reproduce import Specification
    from observal_research.reproduce import reproduce as run_reproduce

    spec = Specification(shape=shape, trials=trials, random_state=seed, ablate=ablate)
    with progress_bar("running", hidden=as_json) as progress, _cluster(dask):
        outcome = run_reproduce(spec, out, jobs, resume, progress)
    if as_json:
        print_json(outcome.to_dict())
        return
    print_table(outcome.header, outcome.rows())
    say(outcome.caption)
    say(f"{outcome.seconds:.0f} s. Figure: {out / 'figure.png'}, {out / 'figure.svg'}")


def benchmark(
    data: Annotated[
        Path | None, typer.Option(help="Folder of NAME.npz files; $OBSERVAL_DATA by default.", envvar="OBSERVAL_DATA")
    ] = None,
    development: Annotated[
        Path | None, typer.Option(help="Folder of NAME.parquet tables to make choices on, instead of all other cells.")
    ] = None,
    rebenchmark: Annotated[
        Path | None, typer.Option(help="Folder of the public re-benchmark; runs it and nothing else.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Trials in each cell.")] = 8,
    seeds: Annotated[int, typer.Option(help="Seeds of the re-benchmark.")] = 10,
    rows: Annotated[int, typer.Option(help="Use at most this many rows of a data set.")] = 6000,
    batch: Annotated[int, typer.Option(help="Labels that a peer buys at a time.")] = 10,
    only: Annotated[str | None, typer.Option(help="Only cells, or tables, whose name contains this.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Comma-separated methods of ours; the first is the one to compare.")
    ] = None,
    peers: Annotated[
        str | None, typer.Option(help="Comma-separated peers; by default margin and random with every model family.")
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Run NewtonVC with each part removed, instead of our other methods.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the results, the tables and the figure.")] = Path(
        "out/benchmark"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    dask: Dask = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Compare our methods with margin and random sampling around four model families, on the same rows and budget.

    It runs four generated scenarios, and every data set in --data under four logging policies; or the tables of
    --development under the same policies; or the public re-benchmark. See docs/benchmark.md.
    Examples: observal-research benchmark --development DIR --trials 2; for a first look: observal-research benchmark --only linear --trials 2;
    to see how much each part helps: observal-research benchmark --ablate --peers margin/logistic
    """
    from observal_research.benchmark import Specification, ablated_methods, pick_methods
    from observal_research.benchmark import benchmark as run_benchmark
    from observal_research.benchmark.tables import OVERALL_HEADER

    if rebenchmark is not None:
        with _cluster(dask):
            run_rebenchmark(rebenchmark, seeds, only, out, resume, jobs, as_json)
        return
    spec = Specification(
        methods=ablated_methods() if ablate else pick_methods(split_list(methods)),
        data=data if development is None else None,
        development=development,
        trials=trials,
        rows=rows,
        batch=batch,
        only=only,
        peers=None if peers is None else tuple(split_list(peers) or ()),
        random_state=seed,
    )
    with progress_bar("running", hidden=as_json) as progress, _cluster(dask):
        report = run_benchmark(spec, out, jobs, resume, progress)
    if spec.data is not None:
        say(
            "This was a look at the real sets: write its date, commit, what was run and what was learned into "
            "benchmarks/LOOKS.md.",
            error=True,
        )
    if as_json:
        print_json(report.to_dict())
        return
    for ours in report.spec.methods:
        print_table(list(OVERALL_HEADER), report.overall_rows(ours))
    if ablate:
        print_table(["more error than NewtonVC, points", *report.groups, "all cells"], report.difference_rows())
    for line in report.summary():
        say(line)
    say(f"Every cell: {out / 'tables.md'}. Figure: {out / 'figure.png'}")


def run_rebenchmark(
    folder: Path, seeds: int, only: str | None, out: Path, resume: bool, jobs: int | None, as_json: bool
) -> None:
    """Run the public re-benchmark and print what it says."""
    from observal.problem.words import count
    from observal_research.rebenchmark import Rebenchmark
    from observal_research.rebenchmark import rebenchmark as run
    from observal_research.rebenchmark.report import RANDOM, SCORECARD

    with progress_bar("running", hidden=as_json) as progress:
        report = run(Rebenchmark(folder, seeds, only=only), out, jobs, resume, progress)
    if as_json:
        print_json(report.to_dict())
        return
    print_table(list(report.agreement_header), report.agreement_rows())
    for variant, words in ((RANDOM, "drawn at random"), (SCORECARD, "drawn by an old scorecard")):
        say(f"First labels {words}, mean AUBC over {count(seeds, 'seed')}:")
        print_table(report.header, report.rows(variant))
    for line in report.summary():
        say(line)


@contextmanager
def _cluster(dask: str | None) -> Iterator[None]:
    """Run trials on a Dask cluster, where one is named."""
    if dask is None:
        yield
        return
    from observal_research.trials import computed_by

    with computed_by(make_executor(dask, None)):
        yield


def leaks(
    folder: Annotated[Path, typer.Argument(help="Folder of Parquet tables with the class in the column label.")],
    repeats: Annotated[int, typer.Option(help="Draws for each table and kind of leak.", min=1)] = 3,
    as_json: Json = False,
) -> None:
    """Plant leaks of six kinds in tables, and print how often the diagnosis finds them and how often it names honest columns.

    Example: observal-research leaks tables/
    """
    from observal_research.leaks import measure, summarise

    with progress_bar("planting", hidden=as_json):
        rows = summarise(measure(folder, repeats))
    header = ["planted", "found where it carries nearly everything", "found elsewhere", "tables with a false alarm"]
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        print_table(header, rows)


def rare(
    folder: Annotated[Path, typer.Argument(help="Folder of Parquet tables with the class in the column label.")],
    trials: Annotated[
        int, typer.Option(help="Draws for each table, share of positive rows and kind of log.", min=1)
    ] = 1,
    peers: Annotated[bool, typer.Option(help="Whether to run the peers, which takes most of the time.")] = True,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Make classes of tables rare, and compare campaigns about them with highest scores, margin and random sampling written by hand.

    Example: observal-research rare tables/ --trials 5 --no-peers
    """
    from observal_research.rare import CONTESTANTS, OURS, measure, summarise

    contestants = tuple(CONTESTANTS) if peers else (OURS,)
    with progress_bar("running", hidden=as_json) as progress:
        header, rows = summarise(list(measure(folder, trials, seed, contestants, progress)))
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        print_table(header, rows)


def rejects(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with tables.json, or of NAME.npz files; $OBSERVAL_DATA by default, and without it made-up tables.",
            envvar="OBSERVAL_DATA",
        ),
    ] = None,
    labels: Annotated[str, typer.Option(help="Comma-separated numbers of labels bought.")] = "30,60,100,150",
    seeds: Annotated[int, typer.Option(help="Splits of each table.", min=1)] = 2,
    only: Annotated[str | None, typer.Option(help="Only tables whose name contains this.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("out/rejects"),
    dask: Dask = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Run rejectkit's benchmark: eight reject-inference methods beside observal, margin sampling and random labels, and the share recovered.

    Examples: observal-research rejects; for a first look: observal-research rejects --labels 30 --seeds 1 --only typical
    """
    from observal_research.rejects import draw, run_benchmark, summarise

    try:
        budgets = [int(text) for text in split_list(labels) or ()]
    except ValueError:
        raise InvalidInput(
            f"--labels takes whole numbers with commas between them, but got {labels!r}; write 30,60,100."
        ) from None
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar("running", hidden=as_json) as progress, _cluster(dask):
        measured = run_benchmark(data, budgets, range(seeds), only, jobs, progress)
    draw(measured, [out / "rejects.svg", out / "rejects.png"])
    if as_json:
        print_json([run.to_dict() for run in measured])
        return
    header, rows, lines = summarise(measured)
    print_table(header, rows)
    for line in lines:
        say(line)
    say(f"Figure: {out / 'rejects.svg'}, {out / 'rejects.png'}")


app = make_app(
    "Check the paper's claims, reproduce its figure, and compare methods.",
    {
        "Commands": {
            "verify": verify,
            "ablate": ablate,
            "reproduce": reproduce,
            "benchmark": benchmark,
            "leaks": leaks,
            "rare": rare,
            "rejects": rejects,
        }
    },
)


def main() -> None:
    """Run the command line."""
    run(app)
