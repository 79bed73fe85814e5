"""The labelling page in a real browser, over a real server."""

from __future__ import annotations

import json
import time

import pytest

from observal.campaign import Campaign, TableOptions
from tests.browser import DESKTOP, PHONE, until, violations
from tests.page_server import Server, ThreadServer, make_loans

AWAY = ("Failed to load resource", "ERR_CONNECTION_REFUSED")


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A served campaign with many rows, for tests that each add a person of their own: a server takes seconds to start."""
    path = tmp_path_factory.mktemp("office") / "loans.db"
    make_loans(path, 500, 500)
    server = Server(path, "--title", "Will it be repaid?")
    yield server
    server.stop()


@pytest.fixture
def serve(tmp_path):
    """Return a function that makes a campaign and serves it."""
    servers = []

    def start(labels=40, batch=40, overlap=1, kind=ThreadServer, **more):
        path = tmp_path / "loans.db"
        make_loans(path, labels, batch, overlap, **more)
        servers.append(kind(path))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def row_of(page):
    """Wait for a row and return its id."""
    page.wait_for_selector(".why .id")
    return page.locator(".why .id").first.text_content().removeprefix("Row ")


def press(page, key):
    """Press a key and return the id of the row it answered."""
    row = row_of(page)
    page.keyboard.press(key)
    return row


def wait_saved(page):
    """Wait until the server has every answer."""
    until(page, "Object.keys(localStorage).every((key) => !key.startsWith('observal outbox'))")


def stored(server, name=None):
    """Return the answers that count, id → label, from the journal; of everybody or of one person."""
    ledger = Campaign.open(server.campaign).engine.read()
    classes = ledger.settings.classes
    theirs = (p for p in ledger.labels if name is None or name in ledger.responses.get(p, ()))
    return {ledger.ids[p]: None if ledger.labels[p] is None else classes[ledger.labels[p]] for p in theirs}


def history(server, name, kind):
    return [e for e in Campaign.open(server.campaign).history() if (e.actor, e.kind) == (name, kind)]


def test_thirty_rows_by_keys_with_undo_skip_and_a_reload(office, open_page):
    page = open_page(office.add("thirty"))
    assert page.url == f"{office.address}/"  # the token is gone from the address
    told = {}
    for n in range(15):
        key = "yn"[n % 2]
        told[press(page, key)] = {"y": "yes", "n": "no"}[key]
    told[press(page, " ")] = None
    wrong = press(page, "1")
    page.keyboard.press("Backspace")
    assert row_of(page) == wrong
    told[press(page, "2")] = "yes"
    wait_saved(page)
    before = row_of(page)
    page.reload()
    assert row_of(page) == before  # the same rows, and nothing is asked twice
    page.keyboard.press("Backspace")  # what was answered before the reload
    until(page, f"document.querySelector('.why .id')?.textContent === 'Row {wrong}'")
    told[press(page, "1")] = "no"
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")  # the skip
    until(page, f"document.querySelector('.why .id')?.textContent !== 'Row {wrong}'")
    skipped = row_of(page)
    assert told[skipped] is None
    told[press(page, "1")] = "no"
    told[press(page, "1")] = "no"
    while len(told) < 30:
        told[press(page, "1")] = "no"
    wait_saved(page)
    until(page, "document.querySelector('.counts').textContent.includes(' of 500 labels')")
    assert stored(office, "thirty") == told
    assert len(history(office, "thirty", "undone")) == 4
    assert page.locator("main b").count() == 0


def test_sixty_answers_a_minute_are_possible(office, open_page):
    page = open_page(office.add("sixty"))
    row_of(page)
    start = time.monotonic()
    for n in range(60):
        press(page, "yn"[n % 2])
    wait_saved(page)
    assert time.monotonic() - start < 60
    assert len(stored(office, "sixty")) == 60


def test_two_people_never_get_the_same_row(office, open_page):
    ann, ben = open_page(office.add("ann")), open_page(office.add("ben"))
    of_ann, of_ben = ([press(page, key) for _ in range(8)] for page, key in ((ann, "1"), (ben, "2")))
    assert not set(of_ann) & set(of_ben)
    for page in (ann, ben):
        wait_saved(page)
    assert stored(office, "ann") == dict.fromkeys(of_ann, "no")
    assert stored(office, "ben") == dict.fromkeys(of_ben, "yes")
    assert ann.get_by_role("link", name="Review").count() == 0  # hidden links have no role


def test_answers_wait_while_the_server_is_away(serve, open_page):
    server = serve(kind=Server)
    page = open_page(server.link, expected=AWAY)
    told = {press(page, "1"): "no" for _ in range(5)}
    wait_saved(page)
    server.kill()
    told |= {press(page, "2"): "yes" for _ in range(6)}
    until(page, "document.querySelector('.away').textContent.includes('waiting in this browser')")
    assert "The server cannot be reached" in page.locator(".away").text_content()
    undone = press(page, "1")
    page.keyboard.press("Backspace")
    assert row_of(page) == undone
    server.start()
    wait_saved(page)
    until(page, "document.querySelector('.away').textContent === ''")
    told[press(page, "2")] = "yes"
    wait_saved(page)
    assert stored(server) == told
    assert len(history(server, "owner", "answered")) == 13  # each sent once: 12 rows, one of them twice


def test_reply_that_is_lost_is_asked_for_again_and_stored_once(office, open_page):
    page = open_page(office.add("lost"), expected=("Failed to load resource",))
    row_of(page)
    sent = []

    def lose_the_first_reply(route):
        sent.append(json.loads(route.request.post_data))
        if len(sent) == 1:
            route.fetch()  # the server has stored it
            route.abort()
        else:
            route.continue_()

    page.route("**/api/v1/tell", lose_the_first_reply)
    told = {press(page, "1"): "no" for _ in range(3)}
    wait_saved(page)
    assert stored(office, "lost") == told
    assert [one["key"] for one in sent][:2] == [sent[0]["key"]] * 2
    assert len(sent) == 4
    assert len(history(office, "lost", "answered")) == 3


def test_rounds_follow_each_other_and_the_page_says_when_all_is_done(serve, open_page):
    server = serve(12, 6)
    page = open_page(server.link, color_scheme="dark")
    for n in range(12):
        press(page, "yn"[n % 2])
    until(page, "document.querySelector('.nothing')?.textContent.includes('budget of 12 is spent')")
    assert len(stored(server)) == 12
    until(page, "document.querySelector('.effort').textContent.includes('After 12 labels the error is')")
    said = page.locator(".effort").text_content()
    for words in (
        "What was reached",
        "Before the first bought label it was",
        "What next?",
        "observal extend loans.db --budget 24",
    ):
        assert words in said
    assert "narrower" not in said
    assert violations(page) == []
    for button, ending in (("Download the report", "html"), ("Download the model", "model")):
        with page.expect_download() as download:
            page.get_by_role("button", name=button).click()
        assert download.value.suggested_filename == f"loans.{ending}"
        assert download.value.path().stat().st_size > 1000
    page.keyboard.press("Backspace")  # even the last one
    page.wait_for_selector(".why")
    press(page, "1")
    page.get_by_role("link", name="Progress").click()
    until(page, "document.querySelectorAll('.chart .whisker').length === 3")
    said = page.locator("main").text_content()
    for words in (
        "Labels12",
        "0 left of 12",
        "Labels per hour",
        "Finished: the label budget of 12 is spent",
        "owner12",
    ):
        assert words in said
    assert page.url.endswith("/progress")
    page.go_back()
    page.wait_for_selector(".nothing")
    check_views(page)


def test_label_and_progress_views_name_the_labels_that_do_not_count_yet(serve, open_page):
    server = serve(30, 10)
    campaign = Campaign.open(server.campaign)
    campaign.ask(7, "zoe")
    rest = campaign.ask(10, "ann")
    campaign.tell(rest.ids, ["yes", "no", "yes"], "ann")
    said = campaign.status().waiting
    assert said.startswith("3 labels are stored; 3 do not count yet, because round 1 waits for 7 rows that zoe holds")
    page = open_page(server.link)
    until(page, f"document.querySelector('.effort')?.textContent.includes({json.dumps(said)})")
    assert "narrower" not in page.locator(".effort").text_content()
    page.goto(f"{server.address}/progress")
    until(page, f"document.querySelector('.waiting')?.textContent === {json.dumps(said)}")
    campaign.tell(campaign.ask(7, "zoe").ids, ["yes", "no"] * 3 + ["no"], "zoe")
    until(page, "document.querySelector('.facts') && !document.querySelector('.waiting')")


def test_owner_decides_where_people_disagree(serve, open_page):
    server = serve(6, 6, overlap=2)
    owner, ben = open_page(server.link), open_page(server.add("ben"))
    rows = [press(owner, "y") for _ in range(6)]
    for n in range(6):
        press(ben, "n" if n < 2 else "y")
    for page in (owner, ben):
        wait_saved(page)
    until(ben, "document.querySelector('.nothing')?.textContent.includes('owner can decide in Review')")
    assert "2 need a decision, because people disagree" in ben.locator(".nothing").text_content()
    until(owner, "document.getElementById('undecided').textContent.includes('2 rows to decide')")
    owner.get_by_role("link", name="Decide 2 rows in Review").click()  # where the rows would be
    owner.wait_for_selector(".opinions")
    assert "2 to decide" in owner.locator(".pager").text_content()
    assert [text.strip() for text in owner.locator(".opinions .label").all_text_contents()] == ["yes", "no"]
    assert violations(owner) == []
    first = owner.locator("article").get_attribute("aria-label").removeprefix("Row ")
    owner.keyboard.press("n")
    until(owner, "document.querySelector('.pager').textContent.includes('1 to decide')")
    assert owner.get_by_role("link", name="Review").text_content() == "Review1, 1 row to decide"
    assert stored(server)[first] == "no"
    select = owner.get_by_label(f"What row {rows[5]} counts as")
    assert select.input_value() == "yes"
    select.select_option("no")  # a correction
    until(owner, f"document.querySelector('[role=status]').textContent === 'Row {rows[5]} is no.'")
    assert stored(server)[rows[5]] == "no"
    history = owner.locator("table").last.text_content()
    assert "owner" in history
    assert "ben" in history
    ben.goto(f"{server.address}/review")  # not for annotators
    ben.wait_for_selector(".question")
    assert ben.locator(".opinions").count() == 0
    ben.get_by_role("link", name="Progress").click()
    until(ben, "document.querySelector('main').textContent.includes('Agreement')")


INSTRUCTIONS = """# Did they pay it *back*?

Say **yes** only if `repaid` is certain. See [the rules](https://example.org/rules), not [these](javascript:alert(1)).

- Late is still yes <img src=x onerror=alert(1)>
- <b>never</b> guess

1. First look at the income

> In doubt, skip.

```
<script>alert(1)</script>
```
"""


def test_instructions_flags_filter_and_a_link_to_one_row(serve, open_page, tmp_path):
    (tmp_path / "how.md").write_text(INSTRUCTIONS, encoding="utf-8")
    (tmp_path / "columns.csv").write_text("column,meaning\nincome,thousands of euros\ndebt,what they owe\n")
    tables = TableOptions(instructions=tmp_path / "how.md", columns_help=tmp_path / "columns.csv")
    server = serve(12, 12, tables=tables)
    page = open_page(server.add("ann"))
    row_of(page)
    panel = page.locator("#help")
    assert not panel.is_visible()
    page.keyboard.press("?")
    assert panel.is_visible()
    assert panel.locator("h3").text_content() == "Did they pay it back?"
    assert [panel.locator(tag).first.text_content() for tag in ("em", "strong", "code", "pre", "blockquote", "ol li")] == [
        "back", "yes", "repaid", "<script>alert(1)</script>", "In doubt, skip.", "First look at the income",
    ]  # fmt: skip
    assert [link.get_attribute("href") for link in panel.locator("a").all()] == ["https://example.org/rules"]
    assert panel.locator("img, script, b").count() == 0  # whatever is in the text stays text
    assert panel.locator("li").first.text_content() == "Late is still yes <img src=x onerror=alert(1)>"
    assert panel.locator("dl").text_content() == "incomethousands of eurosdebtwhat they owe"
    assert page.locator("dt", has_text="income").last.get_attribute("title") == "thousands of euros"
    assert violations(page) == []
    page.keyboard.press("?")
    assert not panel.is_visible()

    flagged = row_of(page)
    page.keyboard.press("!")
    page.keyboard.type("y 1 <b>odd</b>")  # letters are no answers here
    page.keyboard.press("Enter")
    assert row_of(page) == flagged  # it is still to be answered
    press(page, "y")
    skipped = press(page, " ")
    answered = press(page, "n")
    wait_saved(page)
    ledger = Campaign.open(server.campaign).engine.read()
    assert [(name, text) for name, _, text in ledger.flags[ledger.find(flagged)]] == [("ann", "y 1 <b>odd</b>")]

    owner = open_page(server.link)
    owner.get_by_role("link", name="Review").click()
    shown = owner.locator("td a")
    until(owner, "document.querySelectorAll('td a').length === 3")
    assert "⚑ ann: y 1 <b>odd</b>" in owner.locator("main").text_content()
    assert violations(owner) == []
    owner.get_by_label("Which rows").select_option("flagged")
    until(owner, "document.querySelectorAll('td a').length === 1")
    assert shown.text_content() == flagged
    owner.get_by_label("Which rows").select_option("skipped")
    until(owner, f"document.querySelector('td a')?.textContent === '{skipped}'")
    owner.get_by_label("Which rows").select_option("all")
    owner.get_by_label("Find rows").fill(f"ann {answered}")
    until(owner, f"document.querySelector('td a')?.textContent === '{answered}'")
    owner.get_by_label("Find rows").fill("nobody")
    until(owner, "document.querySelector('main').textContent.includes('No such row.')")
    owner.goto(f"{server.address}/review?row={flagged}")
    owner.get_by_role("heading", name=f"Row {flagged}").wait_for()
    owner.wait_for_selector(".raised")
    owner.keyboard.press("n")
    until(owner, "document.querySelector('.decided')?.textContent === 'It now counts as no.'")
    assert stored(server)[flagged] == "no"
    assert owner.url.endswith(f"?row={flagged}")


def test_refused_answer_is_shown_and_never_sent_again(office, open_page):
    page = open_page(office.add("refused"), expected=("Failed to load resource",))
    row_of(page)
    refuse = {
        "status": 409,
        "body": json.dumps({"error": "Somebody changed this row."}),
        "content_type": "application/json",
    }
    page.route("**/api/v1/tell", lambda route: route.fulfill(**refuse))
    press(page, "1")
    until(page, "document.querySelector('.saved').textContent === 'Somebody changed this row.'")
    wait_saved(page)
    assert stored(office, "refused") == {}


def test_page_without_sign_in_says_what_to_do(office, open_page):
    page = open_page(office.address, expected=("Failed to load resource",))
    page.get_by_role("heading", name="Please sign in").wait_for()
    assert violations(page) == []
    assert not page.get_by_role("link", name="Progress").is_visible()


def test_page_works_with_the_keyboard_alone(office, open_page):
    """Tab reaches every control in the order in which it is read, and what has the focus can be seen."""
    page = open_page(office.add("keys"))
    row = row_of(page)
    reached = []
    for _ in range(7):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or reached[-1].startswith("Skip to")
    assert reached == [
        "Skip to the content",
        "Label",
        "Progress",
        "no1n",
        "yes2y",
        "Skipspace",
        "Undobackspace",
    ]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")  # the button yes, and the focus stays on it
    second = row_of(page)
    assert second != row
    assert page.evaluate("document.activeElement.textContent") == "yes2y"
    page.keyboard.press(" ")
    assert row_of(page) not in (row, second)
    assert "Saved: yes" in page.locator(".saved").text_content()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_sign_in_page_has_one_button_that_enter_presses(office, open_page, viewport):
    page = open_page(viewport=viewport, expected=("Failed to load resource",))
    link = office.add("enter")
    for _ in range(2):  # looking does not use the link up
        page.goto(link)
        page.wait_for_selector("main button")
    assert page.get_by_role("button").count() == 1
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.keyboard.press("Enter")
    page.wait_for_url(f"{office.address}/")
    assert page.evaluate("history.length") <= 3  # the page of the link was replaced
    page.goto(link)
    assert "already used" in page.text_content("body")


def test_on_a_phone_every_view_fits_and_is_accessible(office, open_page):
    page = open_page(office.link, viewport=PHONE, has_touch=True, is_mobile=True)
    row = row_of(page)
    page.get_by_role("button", name="yes").tap()
    assert row_of(page) != row
    wait_saved(page)
    check_views(page)


def check_views(page):
    for name, wanted in (("Label", ".effort svg"), ("Progress", ".chart svg"), ("Review", "table")):
        page.get_by_role("link", name=name).click()
        page.wait_for_selector(wanted)
        assert violations(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
