from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import observal as ob
from observal.diagnosis import diagnose
from observal.errors import InvalidInput
from observal.problem.interval import Interval
from observal.report import charts, html, sections
from observal.report.html import ReportContent, render_report, write_report
from observal.report.sections import headline
from observal.report.verdict import error_words

NASTY = "<script>alert('x')</script> & $x^2$ \"quoted\""
SECTIONS = ["headline", "error", "asked", "diagnosis", "weights", "rounds", "made", "reading"]
VOID = {"meta", "link", "br", "hr", "img", "input", "wbr", "col"}


QUICK = ob.NewtonVC(ridge=0.01, tempering=0.5)  # for tests in which the method is not the point


class Page(HTMLParser):
    """What a reader, or a reader's machine, finds on the page."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.headings, self.references = [], [], [], [], []
        self.unnamed, self.headers_without_scope, self.problems = [], 0, []
        self.texts = {}
        self.feed(text)
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "th" and "scope" not in given:
            self.headers_without_scope += 1
        if tag == "svg":
            assert given.get("role") == "img"
            self.unnamed.append(given["aria-labelledby"])
        if tag == "img" and not given.get("alt"):
            self.problems.append("an image without alt")
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                self.references.append(value)
            if name.startswith("on"):
                self.problems.append(f"a handler {name}")
        if tag not in VOID:
            self.open.append((tag, given.get("id")))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1][0] == tag, f"</{tag}> closes {self.open[-1]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "title" and self.open[-1][1] in self.unnamed and data.strip():
            self.unnamed.remove(self.open[-1][1])
        for tag, _ in self.open[-1:]:
            self.texts.setdefault(tag, []).append(data)


def campaign(seed=0, rows=400, budget=25, features=3, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=rows) > 0, "yes", "no")
    q = np.clip(0.5 + 0.4 * X[:, -1], 0.02, 1.0)
    half = rows // 2
    shown = rng.random(half) < q[:half]
    logged = ob.LoggedData(X[:half], np.where(shown, y[:half], None), q[:half])
    ids = options.pop("ids", [f"row {i}" for i in range(rows - half)])
    pool = ob.Pool(X[half:], q[half:], ids=ids)
    answers = dict(zip(ids, y[half:].tolist(), strict=True))
    result = ob.run(
        logged, pool, lambda asked: [answers[i] for i in asked], options.pop("method", QUICK), label_budget=budget
    )
    return logged, pool, result


@pytest.fixture(scope="module")
def full():
    logged, pool, result = campaign(method=None)
    names = ["income", "age", "debt ratio"]
    history = [(n, Interval(0.2 - n / 400, 0.1, 0.4, 0.95, "counted")) for n in (0, 10, 20, 25)]
    return ReportContent(
        "Loans",
        logged,
        pool,
        result,
        diagnose(logged, pool, feature_names=names),
        names,
        settings={"method": "NewtonVC", "label budget": 25},
        versions={"observal": "0.1.0"},
        random_state=7,
        command="observal report loans.db -o report.html",
        notes=["Column 'age' had 3 missing values."],
        intervals={"precision": Interval(0.8, 0.7, 0.9, 0.95, "counted"), "recall": None},
        error_history=history,
        annotators=[{"annotator": "ann", "answers": 20, "agreement": 0.9}],
    )


def check_page(text):
    page = Page(text)
    assert len(page.ids) == len(set(page.ids)), "ids repeat"
    assert page.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
    assert page.unnamed == [], "a figure has no text alternative"
    assert page.headers_without_scope == 0
    assert page.problems == []
    assert all(reference.startswith("#") for reference in page.references), page.references
    elsewhere = re.sub(r"http://www\.w3\.org/(2000/svg|1999/xlink)", "", text)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", elsewhere)
    assert "script" not in page.tags
    missing = {section for section in SECTIONS if section not in page.ids}
    assert missing <= ({"weights"} if "Where are the given labels?" in text else set())
    assert len(text.encode()) < 2_000_000
    return page


def test_full_report_is_valid_and_self_contained(full):
    text = render_report(full)
    page = check_page(text)
    assert '<html lang="en">' in text
    assert page.tags.count("svg") == 5
    for words in (
        "25 more labels were bought",
        "observal report loans.db -o report.html",
        "the label budget of 25 is spent",
        "Column &#39;age&#39; had 3 missing values.",
        "precision",
        "ann",
        full.result.queries["reason"][0],
        full.diagnosis.verdict.replace("'", "&#39;"),
    ):
        assert words in text, words


def test_equal_content_gives_identical_files(full, tmp_path):
    first = write_report(tmp_path / "new folder" / "a.html", full)
    assert first.read_text(encoding="utf-8") == render_report(full)
    assert [p.name for p in first.parent.iterdir()] == ["a.html"]


def test_user_text_is_escaped():
    ids = [f"{NASTY} {i}" for i in range(200)]
    logged, pool, result = campaign(ids=ids)
    content = ReportContent(
        NASTY,
        logged,
        pool,
        result,
        diagnose(logged, pool, feature_names=[NASTY, f"{NASTY}2", "_hidden"]),
        [NASTY, f"{NASTY}2", "_hidden"],
        settings={NASTY: NASTY},
        versions={NASTY: NASTY},
        command=NASTY,
        notes=[NASTY],
        intervals={NASTY: Interval(0.1, 0.0, 0.2, 0.95, NASTY)},
        annotators=[{NASTY: NASTY, "answers": 3}],
        made=NASTY,
    )
    text = render_report(content)
    page = check_page(text)
    assert "<script" not in text
    assert any(NASTY in heading for heading in page.texts["h1"])


@pytest.mark.parametrize(
    "method",
    [None, ob.ActiveVC(), ob.Passive(), ob.ExactDBAL(ob.Thresholds(), gamma=0.05)],
    ids=lambda m: type(m).__name__,
)
def test_report_supports_every_method(method):
    logged, pool, result = campaign(features=1, method=method, budget=15)
    text = render_report(ReportContent("One feature", logged, pool, result, diagnose(logged, pool)))
    check_page(text)
    if result.decisions["action"].tolist().count("inferred"):
        assert "inferred" in text


def test_report_without_bought_labels_says_so():
    logged, pool, result = campaign(budget=0)
    text = render_report(ReportContent("Nothing yet", logged, pool, result))
    check_page(text)
    assert "No label was bought." in text
    assert "No diagnosis was made." in text


def test_report_accepts_sparse_rows_and_lone_surrogates(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random(300, 40, 0.2, format="csr", random_state=rng)
    y = rng.integers(0, 2, 300)
    logged = ob.LoggedData(X[:150], y[:150], 1.0)
    pool = ob.Pool(X[150:], 0.0, ids=[f"\ud800{i}" for i in range(150)])
    answers = dict(zip(pool.ids.tolist(), y[150:].tolist(), strict=True))
    result = ob.run(logged, pool, lambda ids: [answers[i] for i in ids], label_budget=10)
    path = write_report(tmp_path / "report.html", ReportContent("Sparse", logged, pool, result, diagnose(logged, pool)))
    check_page(path.read_text(encoding="utf-8"))


def test_report_accepts_huge_features():
    logged, pool, result = campaign()
    huge = ob.Pool(np.where(pool.X > 0, 1.7e308, -1.7e308), pool.propensity, pool.ids)
    check_page(render_report(ReportContent("Huge", logged, huge, result)))


def test_unknown_error_is_not_shown_as_a_number():
    logged, pool, result = campaign()
    unknown = Interval(0.5, 0.0, 1.0, 0.95, "too few labels")
    content = ReportContent("Unknown", logged, pool, result, intervals={"error": unknown, "recall": unknown})
    text = render_report(content)
    check_page(text)
    assert "50%" not in text
    assert "not known" in text
    assert error_words(unknown) in " ".join(headline(content))


def test_many_rounds_are_thinned_with_a_note(monkeypatch):
    monkeypatch.setattr(sections, "MOST_ROUNDS", 7)
    logged, pool, result = campaign(budget=20, method=ob.NewtonVC(batch=1))
    content = ReportContent("Many", logged, pool, result)
    rows = sections.rounds_table(content).rows
    omitted = len(result.rounds) - len(rows)
    assert len(rows) <= sections.MOST_ROUNDS
    assert omitted > 0
    assert rows[0][0] == "0"
    assert rows[-1][0] == str(len(result.rounds) - 1)
    assert f"{omitted} of the rounds, evenly spaced, are not shown" in render_report(content)


def test_invalid_input_raises_one_sentence(full, tmp_path):
    with pytest.raises(InvalidInput, match="is a folder, but a file is needed"):
        write_report(tmp_path, full)
    other = ob.Pool(full.pool.X, full.pool.propensity)
    with pytest.raises(InvalidInput, match="the pool has no row 'row "):
        render_report(ReportContent("x", full.logged, other, full.result))
    with pytest.raises(InvalidInput, match="one name for each of the 3 features, but 1 were given"):
        ReportContent("x", full.logged, full.pool, full.result, feature_names=["one"])


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_have_enough_contrast():
    """WCAG AA: 4.5 for text, 3 for marks."""
    css = (Path(html.__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
    schemes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", css, re.S)
    ]
    assert len(schemes) == 3
    for scheme in schemes:
        for ground in (scheme["paper"], scheme["wash"]):
            assert all(contrast(scheme[name], ground) >= 4.5 for name in ("ink", "muted", "good", "care", "buy"))
            assert all(contrast(scheme[name], ground) >= 3.0 for name in ("blue", "orange", "cloud"))


def test_charts_use_css_colours(full):
    chart = charts.overlap_chart(full.pool.propensity, full.logged.propensity, 0.1)
    assert "var(--blue)" in chart.svg
    assert "currentColor" in chart.svg
    assert chart.alt.replace("'", "&#39;") in chart.svg
