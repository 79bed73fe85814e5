"""Any table becomes a campaign or one sentence, never a traceback."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import observal as ob
from observal.campaign import Campaign, load_model
from observal.errors import ObservalError

TEXT = st.text(max_size=8)
CELLS = {
    "whole numbers": (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "small numbers": (st.integers(-3, 3), pa.int64()),
    "numbers": (st.floats(allow_nan=True, allow_infinity=True), pa.float64()),
    "halves": (st.floats(width=16), pa.float16()),
    "booleans": (st.booleans(), pa.bool_()),
    "text": (TEXT, pa.string()),
    "few words": (st.sampled_from(["a", "b", "ü", "skip", ""]), pa.string()),
    "dates": (st.dates(), pa.date32()),
    "times": (st.datetimes(), pa.timestamp("us")),
    "huge": (st.decimals(-(10**30), 10**30, places=2), pa.decimal128(38, 2)),
    "nothing": (st.none(), pa.null()),
    "lists": (st.lists(st.integers(0, 3), max_size=2), pa.list_(pa.int64())),
    "bytes": (st.binary(max_size=4), pa.binary()),
}


@st.composite
def columns(draw, n_rows, kind=None):
    values, kind = CELLS[kind or draw(st.sampled_from(list(CELLS)))]
    cells = draw(st.lists(st.none() | values, min_size=n_rows, max_size=n_rows))
    if draw(st.booleans()):
        cells = [value if value is not None else next((v for v in cells if v is not None), None) for value in cells]
    return pa.array(cells, kind)


@st.composite
def problems(draw):
    """Return a log, a pool and options: half of them sound but for strange further columns, half with anything wrong."""
    sound = draw(st.booleans())
    sizes = [draw(st.integers(4 if sound else 0, 12)) for _ in range(2)]
    names = draw(st.lists(st.sampled_from(["x", "z", "reason", "é", " "]), max_size=3, unique=True))
    kinds = {name: draw(st.sampled_from(list(CELLS))) for name in names} if sound else {}
    tables = []
    for place, size in enumerate(sizes):
        table = {name: draw(columns(size, kinds.get(name))) for name in names}
        if sound:
            rng = np.random.default_rng(draw(st.integers(0, 100)))
            table |= {"w": pa.array(rng.normal(size=size)), "q0": pa.array(rng.uniform(0.1, 1, size))}
            table["id"] = pa.array(range(100 * place, 100 * place + size))
            table["y"] = pa.array(rng.choice(["no", "yes", None], size).tolist(), pa.string())
        else:
            table |= {name: draw(columns(size)) for name in ("q0", "id", "y") if draw(st.booleans())}
        tables.append(pa.table(table))
    options = {
        "label": "y",
        "propensity": draw(st.sampled_from(["q0", 0.5] if sound else ["q0", 0.5, None, "x"])),
        "id": draw(st.sampled_from(["id", None])),
        "label_budget": draw(st.sampled_from([None, 0, 3])),
        "tables": ob.TableOptions(
            classes=("no", "yes") if sound else draw(st.sampled_from([None, ("no", "yes"), (0, 1)])),
            propensity_floor=draw(st.sampled_from([None, 0.05])),
            features=None if sound else draw(st.sampled_from([None, ["x"], names])),
            cost=None if sound else draw(st.sampled_from([None, None, "z"])),
        ),
    }
    return *tables, options


def refusal(call, *arguments, **options):
    """Return what a call returns, and the sentence with which it refused; any other error fails the test."""
    try:
        return call(*arguments, **options), ""
    except ObservalError as error:
        text = str(error)
        event(f"refused: {type(error).__name__}")
    assert "\n" not in text
    assert text.endswith(".")
    return None, text


SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=25, suppress_health_check=SLOW_IS_FINE)
@given(problems(), st.data())
def test_any_table_is_a_campaign_or_one_sentence(problem, draw):
    check_campaign(problem, draw)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=SLOW_IS_FINE)
@given(problems(), st.data())
def test_three_hundred_tables_are_campaigns_or_one_sentence(problem, draw):
    check_campaign(problem, draw)


def check_campaign(problem, draw):
    log, pool, options = problem
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "c.db"
        campaign, refused = refusal(Campaign.create, where, log, pool, **options)
        if refused:
            assert list(Path(folder).iterdir()) == []
            return
        event("campaign")
        classes = campaign.status().classes
        for _ in range(3):
            batch = campaign.ask(4)
            names, rows = batch.to_fill_in()
            assert len(rows) == len(batch)
            assert names[-1] == "y"
            assert len(set(names)) == len(names)
            campaign.tell(batch.ids, [draw.draw(st.sampled_from([*classes, None])) for _ in batch.ids])
        Campaign.open(where).status()
        campaign.export(Path(folder) / "yes.model")
        assert set(load_model(Path(folder) / "yes.model").predict(pool).tolist()) <= set(classes)


CELL = st.sampled_from(
    ["0", "1", "1.0", "7", "8", "yes", "skip", "", '"', '"1"', ",", ";", "\r", "\n", "\0", "ü", "id", "y"]
)
LINES = st.lists(st.lists(CELL, min_size=1, max_size=4).map(",".join), max_size=5).map("\n".join)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A campaign of eight rows, all of them open."""
    rng = np.random.default_rng(0)
    tables = [pa.table({"x": rng.normal(size=8), "q0": np.full(8, 0.5), "y": [0, 1] * 4})] * 2
    where = tmp_path_factory.mktemp("fuzz") / "c.db"
    campaign = Campaign.create(where, *tables, label="y", propensity="q0", label_budget=8)
    campaign.ask()
    return campaign


@given(st.binary(max_size=60) | LINES.map(str.encode), st.sampled_from(["id,y\n", "y,id\n", "id;y\n", ""]))
def test_any_file_of_labels_is_stored_or_one_sentence(asked, content, header):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "labels.csv"
        file.write_bytes(header.encode() + content)
        before = len(asked.history())
        receipt, refused = refusal(asked.tell_file, file, correct=True)
        assert not refused or len(asked.history()) == before
        event(f"stored: {receipt is not None and receipt.labels + receipt.skips + receipt.corrected > 0}")
