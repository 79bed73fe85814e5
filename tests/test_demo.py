"""The demo: it writes what it promises, and what it shows is so."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from observal.campaign import Campaign
from observal.cli.demo import make_digits_campaign, run_demo
from observal.errors import CampaignExists
from tests.command import observal


@pytest.fixture
def few_labels(monkeypatch):
    """Fewer labels to buy; the slow test below buys all."""
    monkeypatch.setattr("observal.cli.demo.LABELS", 20)


def test_demo_writes_campaign_and_report_and_replaces_earlier_ones(tmp_path, few_labels):
    done = observal("demo", "--out", "out/demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    out = tmp_path / "out" / "demo"
    for name in ("demo.db", "report.html"):
        assert f"out/demo/{name}" in done.stdout
    assert done.stdout.rstrip().endswith("report.html")  # where the report is comes last
    assert done.stdout.startswith("Buying 20 labels for tumours")  # before anything slow
    assert "with the log alone" in done.stdout
    page = (out / "report.html").read_text(encoding="utf-8")
    assert any(name in page for name in load_breast_cancer().feature_names)
    for sentence in ("malignant", "20 more labels were bought", "observal demo --out out/demo"):
        assert sentence in page
    assert str(tmp_path) not in page
    status = Campaign.open(out / "demo.db").status()
    assert (status.labels, status.stopped) == (20, "the label budget of 20 is spent")
    assert status.random_state == 0
    assert "--seed 0" in page

    steps = []
    result = run_demo(out, 1, lambda *step: steps.append(step))
    assert [what for _, _, what in steps] == [
        "making the campaign", "fitting the log alone", *["buying labels"] * 3, "writing the report",
    ]  # fmt: skip
    assert [done for done, _, _ in steps] == [0, 1, 2, 12, 22, 22]
    assert {total for _, total, _ in steps} == {23}
    assert (result.campaign, result.report) == (out / "demo.db", out / "report.html")
    status = Campaign.open(result.campaign).status()
    assert (status.labels, status.random_state) == (20, 1)
    assert "--seed 1" in result.report.read_text(encoding="utf-8")


@pytest.mark.slow
def test_bought_labels_lower_the_test_error(tmp_path):
    """Ten splits with fixed seeds: 60 labels lower the test error by more than 3 standard errors, and the interval covers it nearly always.

    Were there no difference, a t of above 3 with 9 degrees of freedom had probability 0.008.
    """
    results = [run_demo(tmp_path, seed) for seed in range(10)]
    gains = np.array([result.error_before - result.error_after for result in results])
    assert gains.mean() > 3 * gains.std(ddof=1) / np.sqrt(len(gains)), gains
    assert all(result.interval.high - result.interval.low < 0.2 for result in results)  # worth showing
    assert sum(result.interval.low <= result.error_after <= result.interval.high for result in results) >= 8


def test_digits_are_made_once_and_shown_as_pictures(tmp_path):

    from observal.server.pool_view import PoolView

    path = make_digits_campaign(tmp_path / "demo")
    campaign = Campaign.open(path)
    status = campaign.status()
    assert (status.classes, status.label_budget, status.pool_rows) == (("no", "yes"), 60, 719)
    assert status.revealed < 50  # the old classifier was timid
    batch = campaign.ask(10)
    (field,) = PoolView(batch.rows, campaign.settings).fields(0)
    assert (field["kind"], len(field["pixels"]), len(field["pixels"][0])) == ("pixels", 8, 8)
    campaign.tell(batch.ids[:3], ["yes", "no", "no"])
    assert Campaign.open(make_digits_campaign(tmp_path / "demo")).labels == 3  # a second start goes on with it
    (tmp_path / "digits.db").write_text("mine")
    with pytest.raises(CampaignExists):
        make_digits_campaign(tmp_path)
