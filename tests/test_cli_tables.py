"""Tables of a European spreadsheet on the command line: to a model and back, without an option; Excel; ids that a spreadsheet changed."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from dataclasses import asdict

import numpy as np
import openpyxl
import pandas as pd
import pytest

import observal as ob
from observal.campaign import Campaign, load_model
from observal.cli.output import format_cells
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.problem import Problem
from observal.problem.words import day_words
from observal.report.campaign_report import write_campaign_report
from observal.report.inspection import errors_by_group
from observal.tables.column_format import ColumnFormat, guess_format
from observal.tables.table_format import TableFormat
from tests.test_cli_campaign import observal

N = 150
HEADER = ["Antrag", "Einkommen", "Zinssatz", "Geschäft seit", "Wohnort (Größe)", "Prüfquote", "Rückzahlung"]
SHOWN = HEADER[:-2]  # people do not see the propensity


def comma(value, digits=2):
    """Return a number as a European spreadsheet shows it."""
    return f"{value:,.{digits}f}".replace(",", "_").replace(".", ",").replace("_", ".")


@pytest.fixture
def european(tmp_path):
    """Write a log and a pool as a European spreadsheet saves them, and return the truth."""
    rng = np.random.default_rng(0)
    lines, truth = [], {}
    for i in range(2 * N):
        id_, income, rate = f"{i:06d}", rng.gamma(4, 900), rng.uniform(1, 15)
        since = dt.date(2015, 1, 1) + dt.timedelta(int(rng.integers(0, 3000)))
        town = str(rng.choice(["Köln", "München", "Düsseldorf"]))
        truth[id_] = "säumig" if rate * 300 > income * 0.8 + 200 * (town == "Köln") else "bezahlt"
        chance = 0.3 + 0.5 * (rate < 8)
        label = truth[id_] if i < N and rng.random() < chance else ""
        cells = [
            comma(income) + " €",
            comma(rate) + " %",
            since.strftime("%d.%m.%Y"),
            town,
            comma(100 * chance, 0) + " %",
        ]
        lines.append(";".join([id_, *cells, label]))
    for name, rows in (("log.csv", lines[:N]), ("pool.csv", lines[N:])):
        (tmp_path / name).write_bytes(("\r\n".join([";".join(HEADER), *rows]) + "\r\n").encode("cp1252"))
    return truth


def saved_by_a_spreadsheet(path, truth):
    """Fill in labels as a European spreadsheet does: it loses leading zeros and writes Windows text."""
    rows = list(csv.reader(io.StringIO(path.read_text("utf-8-sig")), delimiter=";"))
    assert rows[0] == [
        *(name for name in HEADER[:-1] if name != "Prüfquote"),
        "round",
        "reason",
        "allowed",
        "Rückzahlung",
    ]
    for row in rows[1:]:
        assert row[-2] == "bezahlt / säumig / skip"
        assert re.fullmatch(r"0,\d+", row[2])
        assert dt.datetime.strptime(row[3], "%d.%m.%Y")
        row[-1], row[0] = truth[row[0]], row[0].lstrip("0")
    path.write_bytes("\r\n".join(";".join(row) for row in rows).encode("cp1252"))


def test_semicolon_csv_becomes_a_model_and_labels_come_back(tmp_path, european, monkeypatch):
    monkeypatch.chdir(tmp_path)
    roles = ["--label", "Rückzahlung", "--id", "Antrag", "--propensity", "Prüfquote"]
    made = observal(
        "init", "c.db", "--logged", "log.csv", "--pool", "pool.csv", *roles, "--budget", 20, "--batch", 10, "--notes"
    )
    assert "read as semicolon-separated text with decimal commas, encoded as Windows-1252" in made
    assert "'Zinssatz' has percent signs" in made
    observal("ask", "c.db", "-n", 10, "-o", "labels.csv")
    saved_by_a_spreadsheet(tmp_path / "labels.csv", european)
    assert "10 labels stored" in observal("tell", "c.db", "labels.csv")
    assert "10 of 20" in observal("status", "c.db")
    observal("export", "c.db", "loans.model")
    model, expected = load_model("loans.model"), [european[f"{i:06d}"] for i in range(N, 2 * N)]
    predicted = model.predict(ob.read_table("pool.csv"))
    assert np.mean(predicted == expected) > 0.85
    for options in ({}, {"decimal": ","}):
        frame = pd.read_csv("pool.csv", sep=";", encoding="cp1252", **options)
        assert (model.predict(frame) == predicted).all()
    assert (model.predict("pool.csv") == predicted).all()
    first = "\n".join((tmp_path / "pool.csv").read_text("cp1252").splitlines()[:2])
    (tmp_path / "one.csv").write_text(first, encoding="cp1252")
    assert model.predict("one.csv").tolist() == predicted[:1].tolist()


def test_dates_are_dates_in_rules_and_reports(tmp_path):
    rng = np.random.default_rng(0)
    day = np.datetime64("2020-01-01") + rng.integers(0, 1000, 600)
    late = day > np.datetime64("2021-06-30")
    frame = pd.DataFrame(
        {"id": range(600), "since": day, "age": rng.integers(20, 60, 600), "q": np.where(late, 0.002, 0.6)}
    )
    frame["since"] = frame["since"].dt.strftime("%d/%m/%Y")
    frame["age"] = frame["age"].astype(str) + " %"  # of a hundred years
    frame["y"] = np.where(late, "bad", "good")
    log, pool = frame[:300].copy(), frame[300:].drop(columns="y")
    log.loc[rng.random(300) > log["q"], "y"] = None
    campaign = Campaign.create(tmp_path / "c.db", log, pool, label="y", propensity="q", id="id", tables=ob.TableOptions(classes=["bad", "good"]), method=ob.NewtonVC(batch=8))  # fmt: skip
    batch = campaign.ask()
    campaign.tell(batch.ids, [frame["y"][i] for i in batch.ids])
    write_campaign_report(campaign, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "since &gt; 2021-06-" in page or "since > 2021-06-" in page
    assert "18,8" not in page  # days since 1970
    assert re.search(r"<th scope=\"row\" class=\"words\">age ≤ 3\d%</th>", page)
    assert "Labelled by" not in page  # nobody gave a name
    X = frame["since"].map(lambda text: (dt.datetime.strptime(text, "%d/%m/%Y") - dt.datetime(1970, 1, 1)).days)
    X = X.to_numpy(dtype=float)[:, None]
    problem = Problem(ob.LoggedData(X, late.astype(float), 1.0), ob.Pool(X, 1.0))
    codes = late.astype(np.int64)
    groups = errors_by_group(
        problem,
        JudgedRows(
            np.arange(600), codes, codes, np.ones(600), lambda top, bottom: Interval(0.0, 0.0, 0.1, 0.95, "given")
        ),
        ["since"],
        ["since"],
        [],
        lambda _, value: day_words(value),
    )
    assert [group.labels for group in groups] == pytest.approx([200, 200, 200], abs=2)
    low, high = np.sort(day)[[199, 399]]
    assert [group.group for group in groups] == [f"since ≤ {low}", f"since from {low} to {high}", f"since > {high}"]
    assert "since > 2021-06-" in observal("diagnose", tmp_path / "c.db")


def test_whole_amounts_have_no_decimals():
    like = TableFormat(columns={"paid": ColumnFormat()})
    assert repr(format_cells(["paid", "rate"], [{"paid": 5012.0, "rate": 2.0}], like)) == "[[5012, 2.0]]"


@pytest.mark.parametrize(
    ("texts", "cells"),
    [
        (["$5,012", "$7", "$1,250,000"], ["5012", "7", "1250000"]),
        (["1.234,50 €", "0,75 €", "12.000,00 €"], ["1234,5", "0,75", "12000"]),
        (["CHF 1'200.05", "CHF 3.10"], ["1200.05", "3.1"]),
        (["8,02 %", "11 %"], ["0,0802", "0,11"]),
        (["0.5", "12"], ["0.5", "12"]),
    ],
)
def test_amounts_are_written_as_plain_numbers(texts, cells):
    [format] = guess_format(texts).formats
    assert [str(format.write(format.read(text))) for text in texts] == cells
    assert ColumnFormat(**json.loads(json.dumps(asdict(format)))) == format


def test_excel_file_is_written_and_read_back(tmp_path, european, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("log", "pool"):
        table = ob.read_table(f"{name}.csv", "Antrag").to_pandas()
        table.to_excel(f"{name}.xlsx", index=False)
    roles = ["--label", "Rückzahlung", "--id", "Antrag", "--propensity", "Prüfquote"]
    observal("init", "c.db", "--logged", "log.xlsx", "--pool", "pool.xlsx", *roles, "--budget", 20, "--batch", 10)
    observal("ask", "c.db", "-n", 10, "-o", "labels.xlsx", "--columns", "Zinssatz,Geschäft seit")
    book = openpyxl.load_workbook("labels.xlsx")
    sheet = book["labels"]
    rows = list(sheet.iter_rows(values_only=True))
    assert rows[0] == ("Antrag", "Zinssatz", "Geschäft seit", "round", "reason", "allowed", "Rückzahlung")
    assert isinstance(rows[1][2], dt.datetime)
    (rule,) = sheet.data_validations.dataValidation
    assert (str(rule.sqref), rule.formula1) == ("G2:G11", "answers!$A$1:$A$3")
    assert [cell.value for cell in book["answers"]["A"]] == ["bezahlt", "säumig", "skip"]
    for at, row in enumerate(rows[1:], start=2):
        sheet.cell(at, 7).value = european[row[0]] if at < 11 else None
        sheet.cell(at, 1).value = int(row[0])  # as somebody does who retypes ids
    book.save("labels.xlsx")
    assert "9 labels stored, 1 row left blank" in observal("tell", "c.db", "labels.xlsx")
    book["labels"].cell(2, 7).value = "vielleicht"
    book.save("wrong.xlsx")
    assert "wrong.xlsx, row 2: 'vielleicht' is not one of the classes" in observal("tell", "c.db", "wrong.xlsx", code=1)


def test_formulas_stay_text_in_excel(tmp_path):
    from observal.tables.spreadsheets import read_workbook, write_workbook

    with (tmp_path / "a.xlsx").open("wb") as file:
        write_workbook(file, ["=id", "y"], [["=1+1", None], ["+x\x01", None], [10**18, None]], ["=yes", "no"])
    assert read_workbook(tmp_path / "a.xlsx").rows == [["=1+1", None], ["+x", None], [str(10**18), None]]
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["labels"]
    assert {sheet[place].data_type for place in ("A1", "A2", "A3", "A4")} == {"s"}


@pytest.fixture
def odd_ids(tmp_path):
    """Return a campaign whose ids a spreadsheet changes."""
    ids = ["000820", "12E4", "0007", "7", "1234567890123456", "99", *(f"r{i}" for i in range(20))]
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60 + len(ids), 1))
    logged = ob.LoggedData(X[:60], np.where(X[:60, 0] > 0, "good", "bad"), 0.5)
    pool = ob.Pool(X[60:], 0.5, np.array(ids, dtype=object))
    return Campaign.create_from_arrays(tmp_path / "c.db", logged, pool, method=ob.NewtonVC(batch=len(ids)))


def test_ids_changed_by_a_spreadsheet_are_recognised(odd_ids, tmp_path):
    assert len(odd_ids.ask()) == 26
    cells = ["820", "1,20E+05", "1.23457E+15", "99.0"]
    told = tmp_path / "labels.csv"
    told.write_text("id;label\n" + "".join(f"{cell};good\n" for cell in cells))
    assert odd_ids.tell_file(told).labels == 4
    answered = {answer["id"] for entry in odd_ids.history() for answer in entry.details.get("answers", ())}
    assert answered == {"000820", "12E4", "1234567890123456", "99"}
    assert odd_ids.tell(["7"], ["bad"]).labels == 1  # the text itself comes first
    with pytest.raises(ob.ObservalError, match="may be one of 2 rows"):
        odd_ids.tell(["07"], ["good"])
    with pytest.raises(ob.ObservalError, match="never asked"):
        odd_ids.tell(["821"], ["good"])


def test_errors_take_one_line(tmp_path, european, monkeypatch):
    monkeypatch.chdir(tmp_path)
    roles = ["--label", "Rückzahlung", "--id", "Antrag", "--propensity", "Prüfquote"]
    data = ["--logged", "log.csv", "--pool", "pool.csv", *roles]
    assert "one character" in observal("init", "c.db", *data, "--sep", "abc", code=1)
    text = (tmp_path / "log.csv").read_text("cp1252").replace(";\n", ";?\n")
    (tmp_path / "log.csv").write_text(text, encoding="cp1252")
    assert "--missing '?'" in observal("init", "c.db", *data, code=1)
    observal("init", "c.db", *data, "--missing", "?", "--batch", 3)
    assert "no column 'Alter'" in observal("ask", "c.db", "--columns", "Alter", code=1)
    asked = json.loads(observal("ask", "c.db", "-n", 1, "--json"))
    assert asked["allowed"] == ["bezahlt", "säumig", "skip"]
    assert list(asked["rows"][0]) == [*SHOWN, "round", "reason", "Rückzahlung"]
    (tmp_path / "l.csv").write_text(f"Antrag;Rückzahlung\n{asked['rows'][0]['Antrag']};?\n", encoding="cp1252")
    assert "no answers yet" in observal("tell", "c.db", "l.csv")
    said = observal("diagnose", "log.csv", "--pool", "pool.csv", *roles, "--missing", "?", "--decimal", ",", "--notes")
    assert "70 with a label" in said
    assert "The tables were read as semicolon-separated text" in said


def test_more_budget_on_the_command_line(odd_ids, tmp_path):
    assert "no label budget" in observal("extend", tmp_path / "c.db", "--budget", 9, code=1)
