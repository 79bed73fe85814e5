"""The command demo: tumours whose diagnosis is known only where an old scorecard looked, or digits to label in a browser.

Both are made from data that scikit-learn ships, and go through a campaign as a user's own tables would.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from observal.cli.label import PORT
from observal.cli.label import serve as serve_campaign
from observal.cli.options import Json, Seed, option
from observal.cli.output import print_result, progress_bar, say

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from observal.checks import Floats
    from observal.problem.interval import Interval

LABELS, BATCH = 60, 20  # labels to buy, and how many are asked for at once
STEPS_BESIDES = 3  # of the progress bar, beside labels: the campaign, the first fit and the report
TUMOUR, DIAGNOSIS = "tumour", "diagnosis"
DIGIT, IS_AN_8 = "digit", "is an 8"
CHANCE = "chance"
LEAST_CHANCE = 0.005  # of a look by the scorecard, whatever the score
SEEN_SHARE, STEEPNESS = 0.3, 4.0  # rows with even odds of a look or better; how fast the odds change with the score
TIMID_SHARE, LEAST_DIGIT_CHANCE = 0.004, 0.02  # the old classifier of digits looks mostly where it is very sure


def demo(
    out: Annotated[Path, option("Folder for the campaign and the report.", "FOLDER")] = Path("out/demo"),
    serve: Annotated[bool, typer.Option("--serve", help="Label digits yourself in your browser instead.")] = False,
    port: Annotated[int, option("With --serve: the port; 0 takes a free one.", "N", min=0, max=65535)] = PORT,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="With --serve: open the browser.")] = True,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Buy 60 labels on a real data set, and write a campaign and its report.

    The data set comes with scikit-learn, so nothing is downloaded.

    Example: observal demo --out out/demo; to label digits in your browser: observal demo --serve
    """
    if serve:
        campaign = make_digits_campaign(out, seed)
        say(f"Is this an 8? An old classifier looked only at digits it was sure of. The campaign is in {campaign}.")
        serve_campaign(str(campaign), port=port, open_=open_, title="Is this an 8?")
        return
    if not as_json:
        say(f"Buying {LABELS} labels for tumours that an old scorecard did not look at; this takes a few seconds.")
        sys.stdout.flush()  # before what is slow to import
    with progress_bar("making the campaign", hidden=as_json) as progress:
        outcome = run_demo(out, seed, progress)
    sentences = [
        *outcome.summary.splitlines(),
        f"The campaign: {outcome.campaign}; look at it with `observal status {outcome.campaign}`.",
        f"Its report: {outcome.report}",
    ]
    print_result(as_json, outcome.to_dict(), *sentences)


@dataclass(frozen=True, eq=False)
class DemoData:
    """A log and a pool as tables, the labels of all rows, and rows to test on."""

    logged: pa.Table
    pool: pa.Table
    labels: NDArray[np.object_]
    X_test: Floats
    y_test: NDArray[np.object_]


@dataclass(frozen=True)
class DemoResult:
    """What the labels did: test errors before and after, and what the campaign itself says of the error."""

    log_rows: int
    revealed: int
    labels: int
    test_rows: int
    error_before: float
    error_after: float
    interval: Interval
    campaign: Path
    report: Path

    @property
    def summary(self) -> str:
        """What was done, in words."""
        return (
            f"The log has {self.log_rows} tumours, benign or malignant; an old scorecard, which used half of the measurements, "
            f"revealed {self.revealed} of their labels.\n"
            f"Error on {self.test_rows} held-out tumours: {100 * self.error_before:.1f} % with the log alone, "
            f"{100 * self.error_after:.1f} % after {self.labels} more labels.\n"
            f"From its labels alone, the campaign puts the error between {100 * self.interval.low:.1f} % and "
            f"{100 * self.interval.high:.1f} %."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "campaign": str(self.campaign),
            "report": str(self.report),
            "labels": self.labels,
            "test_error_before": self.error_before,
            "test_error_after": self.error_after,
            "error_low": self.interval.low,
            "error_high": self.interval.high,
        }


def run_demo(out: Path, random_state: int = 0, progress: Callable[[int, int, str], None] | None = None) -> DemoResult:
    """Run the demo, write its campaign and report to the folder `out`, and return what came out.

    `progress` is called with how much is done, of how much, and what is being done.
    """

    def show(done: int, what: str) -> None:
        if progress is not None:
            progress(done, LABELS + STEPS_BESIDES, what)

    show(0, "making the campaign")
    from observal.campaign import Campaign
    from observal.report.campaign_report import write_campaign_report
    from observal.threads import one_thread

    out.mkdir(parents=True, exist_ok=True)
    path = out / "demo.db"
    check_is_demo(path, TUMOUR, DIAGNOSIS)  # before the work
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    data = make_tumours(random_state)
    campaign = Campaign.create(
        path,
        data.logged,
        data.pool,
        label=DIAGNOSIS,
        propensity=CHANCE,
        id=TUMOUR,
        label_budget=LABELS,
        random_state=random_state,
    )

    def test_error() -> float:
        return float((campaign.estimator.predict(data.X_test) != data.y_test).mean())

    command = f"observal demo --out {out} --seed {random_state}"
    title = "Tumours that an old scorecard did not look at"
    with one_thread():  # many small fits run faster on one thread
        show(1, "fitting the log alone")
        before = test_error()
        show(2, "buying labels")
        while batch := campaign.ask(BATCH):
            campaign.tell(batch.ids, data.labels[list(batch.ids)])
            show(2 + campaign.labels, "buying labels")
        show(2 + campaign.labels, "writing the report")
        report = write_campaign_report(campaign, out / "report.html", title, command, force=True)
        status, error = campaign.status(), campaign.intervals()["error"]
        return DemoResult(
            log_rows=len(data.logged),
            revealed=status.revealed,
            labels=status.labels,
            test_rows=len(data.y_test),
            error_before=before,
            error_after=test_error(),
            interval=error,
            campaign=path,
            report=report,
        )


def check_is_demo(path: Path, id_: str, label: str) -> bool:
    """Return whether there is a campaign of an earlier demo, and refuse anything that no demo made."""
    from observal.campaign import Campaign
    from observal.errors import CampaignExists, ObservalError

    if not os.path.lexists(path):
        return False
    try:
        settings = Campaign.open(path).settings
        is_demo = (settings.id, settings.label) == (id_, label)
    except ObservalError:
        is_demo = False
    if not is_demo:
        raise CampaignExists(f"{path} already exists and no earlier demo made it; choose another folder (--out).")
    return True


def make_tumours(random_state: int) -> DemoData:
    """Return tumours split into log, pool and test rows, with labels revealed by a scorecard on half of the measurements."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    tumours = load_breast_cancer()
    labels = np.where(tumours.target == 1, "benign", "malignant").astype(object)
    chances = _scorecard(tumours.data, (tumours.target == 0).astype(np.int_), np.random.default_rng(random_state))
    return _split(tumours.data, labels, chances, (TUMOUR, DIAGNOSIS), tumours.feature_names, random_state)


def _scorecard(X: Floats, target: NDArray[np.int_], rng: np.random.Generator) -> Floats:
    """Return each row's chance of a look: logistic in the score of an old model on half of the features and a tenth of the rows."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    features = np.sort(rng.choice(X.shape[1], size=X.shape[1] // 2, replace=False))
    classes = [rng.permutation(np.flatnonzero(target == code)) for code in (0, 1)]
    rows = np.concatenate([members[: round(members.size / 10)] for members in classes])
    half = (X[:, features] - X[:, features].mean(axis=0)) / X[:, features].std(axis=0)
    scores = half @ LogisticRegression(max_iter=1000).fit(half[rows], target[rows]).coef_.ravel()
    steep = scores * (STEEPNESS / scores.std())
    chances = 1.0 / (1.0 + np.exp(np.quantile(steep, 1.0 - SEEN_SHARE) - steep))
    return np.asarray(np.maximum(LEAST_CHANCE, chances))


def _split(
    X: Floats,
    labels: NDArray[np.object_],
    chances: Floats,
    names: tuple[str, str],
    features: list[str],
    random_state: int,
) -> DemoData:
    """Split rows at random: a fifth to test on, half of the others as the log, with labels revealed by their chances."""
    import numpy as np
    import pyarrow as pa

    rng, n_rows = np.random.default_rng(random_state), len(labels)
    n_test = round(0.2 * n_rows)
    test, log, pool = np.split(rng.permutation(n_rows), [n_test, n_test + round(0.5 * (n_rows - n_test))])
    revealed = rng.random(log.size) < chances[log]
    id_, label = names

    def table(rows: NDArray[np.int_]) -> pa.Table:
        columns = {str(name): X[rows, k] for k, name in enumerate(features)}
        return pa.table({id_: rows, **columns, CHANCE: chances[rows]})

    answers = [value if is_revealed else None for value, is_revealed in zip(labels[log], revealed, strict=True)]
    logged = table(log).append_column(label, pa.array(answers, pa.string()))
    return DemoData(logged, table(pool), labels, X[test], labels[test])


def make_digits_campaign(out: Path, random_state: int = 0) -> Path:
    """Make the campaign of digits in the folder `out` and return its path; one that is there from an earlier demo is kept as it is."""
    from observal.campaign import Campaign, TableOptions
    from observal.methods import AutoVC

    out.mkdir(parents=True, exist_ok=True)
    path = out / "digits.db"
    if check_is_demo(path, DIGIT, IS_AN_8):
        return path
    data = make_digits(random_state)
    Campaign.create(
        path,
        data.logged,
        data.pool,
        label=IS_AN_8,
        propensity=CHANCE,
        id=DIGIT,
        label_budget=LABELS,
        tables=TableOptions(classes=["no", "yes"]),
        method=AutoVC(batch=10),
        random_state=random_state,
    )
    return path


def make_digits(random_state: int) -> DemoData:
    """Return digits, eights against all others; an old classifier looked at those that it was very sure about."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    digits = load_digits()
    is_8 = digits.target == 8
    X = StandardScaler().fit_transform(digits.data)
    rows = np.random.default_rng(random_state).permutation(len(X))[: len(X) // 10]
    distance = LogisticRegression(max_iter=1000).fit(X[rows], is_8[rows]).decision_function(X)
    chances = np.clip(TIMID_SHARE * (distance / np.median(np.abs(distance))) ** 2, LEAST_DIGIT_CHANCE, 1.0)
    labels = np.where(is_8, "yes", "no").astype(object)
    return _split(digits.data, labels, chances, (DIGIT, IS_AN_8), digits.feature_names, random_state)
