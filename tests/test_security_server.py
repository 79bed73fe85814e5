"""Attacks on the labelling page's server, each with its expected refusal."""

from __future__ import annotations

import base64
import json
import os
import socket

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core import NotSet

from observal.campaign import Campaign
from observal.journal.sql import people
from observal.journal.sql.store import open_store
from observal.server import guard
from observal.server.guard import MOST_BYTES, POLICY, Guard
from tests.campaigns import make_campaign, truth_of
from tests.page_server import ThreadServer
from tests.serving import ADDRESS, new_key, site
from tests.test_server import png, table_campaign

OURS = {"X-Observal": "1", "Origin": ADDRESS}
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '{"hotkey":"1","onclick":"alert(1)"}',
    "'; DROP TABLE observal_journal; --",
    "1 OR 1=1",
    "../../etc/passwd",
    "http://127.0.0.1:9/fetch-me",
    "\u202eright to left\x00",
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """One campaign for all refusals: none of them changes it."""
    with pytest.MonkeyPatch.context() as patch:
        where = tmp_path_factory.mktemp("attacked") / "c.db"
        make_campaign(where, label_budget=200)
        with site(patch, where) as found:
            found.ann, found.bob = found.browser("ann"), found.browser("bob")
            found.olga = found.browser("olga", "owner")
            found.rows = found.ann.ask(3)["rows"]
            yield found


@pytest.fixture(autouse=True)
def unchanged(request):
    """Check after each attack that nothing was stored, lost or damaged."""
    if "here" not in request.fixturenames:
        yield
        return
    here = request.getfixturevalue("here")
    before = Campaign.open(here.where).status().labels
    yield
    assert Campaign.open(here.where).check().labels == before


def tell_body(here, label="good"):
    return {"key": new_key(), "answers": [{"id": here.rows[0]["id"], "label": label}]}


GETS = ["me", "status", "rounds", "review", "history", "export", "report", "image/0/0"]
POSTS = {
    "ask": {"n": 1},
    "tell": {"key": "k", "answers": [{"id": "1", "label": "good"}]},
    "skip": {"key": "k", "id": "1"},
    "undo": {"key": "k"},
    "flag": {"key": "k", "id": "1", "text": "odd"},
    "review": {"key": "k", "id": "1", "label": "good"},
}


@pytest.mark.parametrize("cookie", [None, "wrong", "", "a" * 5000, "' OR '1'='1"])
def test_missing_or_wrong_token_is_refused_everywhere(here, cookie):
    visitor = here.visitor()
    if cookie is not None:
        visitor.client.cookies.set(here.desk.cookie, cookie)
    for path in GETS:
        assert visitor.get(path).status_code == 401, path
    for path, body in POSTS.items():
        assert visitor.post(path, **body).status_code == 401, path
    assert visitor.client.get("/openapi.json").status_code == 401


def test_wrong_link_does_not_sign_in(here):
    for token in ("", "wrong", "%00", "' OR 1=1 --", "x" * 10_000):
        assert here.visitor().client.get("/login", params={"token": token}).status_code == 401
        reply = here.sign_in(here.visitor(), token)
        assert reply.status_code == (401 if len(token) < 1000 else 422)
        assert "set-cookie" not in reply.headers
    assert here.visitor().client.get("/login").status_code == 401


def test_looking_at_a_link_does_not_use_it_up(here):
    token = here.link("carl")
    for method in ("GET", "HEAD", "GET"):  # a scanner of mail follows links
        reply = here.visitor().client.request(method, "/login", params={"token": token})
        assert reply.status_code in (200, 405)
        assert "set-cookie" not in reply.headers
    assert token not in reply.text
    assert here.sign_in(here.visitor(), token).status_code == 204


def test_another_site_cannot_press_the_button(here):
    token = here.link("carl")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for headers in (
        {},
        {"Origin": ADDRESS},
        {"X-Observal": "1", "Origin": "http://evil.example"},
        form,
        {**OURS, **form},
    ):
        reply = here.visitor().client.post("/login", content=json.dumps({"token": token}), headers=headers)
        assert reply.status_code in (403, 415)
    assert here.sign_in(here.visitor(), token).status_code == 204


def test_link_works_once_and_not_for_ever(here, monkeypatch):
    token = here.link("carl")
    assert here.sign_in(here.visitor(), token).status_code == 204
    assert here.sign_in(here.visitor(), token).status_code == 401
    assert here.visitor().client.get("/login", params={"token": token}).status_code == 401
    late = here.link("carl")
    now = people.now
    monkeypatch.setattr(people, "now", lambda: now() + people.timedelta(days=8))
    assert here.sign_in(here.visitor(), late).status_code == 401


def test_link_and_cookie_tokens_are_not_interchangeable(here):
    carl = here.browser("carl")
    cookie = carl.client.cookies[here.desk.cookie]
    assert here.sign_in(here.visitor(), cookie).status_code == 401
    visitor = here.visitor()
    visitor.client.cookies.set(here.desk.cookie, here.link("carl"))
    assert visitor.get("me").status_code == 401


def test_revoked_person_is_signed_out_at_once(here):
    dora = here.browser("dora")
    unused = here.link("dora")
    assert dora.get("me").status_code == 200
    with open_store(here.where).writing() as transaction:
        people.revoke_person(transaction, "dora")
    assert dora.get("me").status_code == 401
    assert dora.post("ask", n=1).status_code == 401
    assert here.sign_in(here.visitor(), unused).status_code == 401


def test_cookie_cannot_be_read_by_scripts_or_sent_from_other_sites(here):
    reply = here.sign_in(here.visitor(), here.link("carl"))
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert reply.headers["referrer-policy"] == "no-referrer"


def test_annotators_cannot_do_what_owners_do(here):
    for path in ("review", "review?all=1", "history", "export", "report"):
        assert here.ann.get(path).status_code == 403, path
        assert here.olga.get(path).status_code == 200, path
    reply = here.ann.post("review", key=new_key(), id=here.rows[0]["id"], label="good")
    assert reply.status_code == 403


def test_another_persons_row_is_refused(here):
    for who in (here.bob, here.olga):
        assert who.post("tell", **tell_body(here)).status_code == 403
        assert who.post("skip", key=new_key(), id=here.rows[0]["id"]).status_code == 403
    assert here.bob.tell([("9999", "good")]).status_code == 404  # a row of nobody
    assert here.bob.get("image/0/0").status_code in (403, 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example", "X-Observal": "1"},
        {"Origin": "http://127.0.0.1:9999", "X-Observal": "1"},
        {"Origin": "https://127.0.0.1:8787", "X-Observal": "1"},
        {"Origin": "127.0.0.1:8787", "X-Observal": "1"},
        {"Origin": "null", "X-Observal": "1"},
        {"Origin": "http://[", "X-Observal": "1"},
        {"X-Observal": "1", "Sec-Fetch-Site": "cross-site"},
        {"X-Observal": "1", "Sec-Fetch-Site": "same-site"},
        {"Origin": ADDRESS},
        {"Origin": ADDRESS, "X-Observal": "0"},
    ],
)
def test_post_from_another_site_is_refused(here, headers):
    reply = here.ann.client.post("/api/v1/tell", json=tell_body(here), headers=headers)
    assert reply.status_code == 403
    assert "same origin" in reply.json()["error"]


def test_form_cannot_post(here):
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"):
        reply = here.ann.client.post("/api/v1/undo", content=b'{"key":"k"}', headers={**OURS, "Content-Type": kind})
        assert reply.status_code == 415


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8787", "10.0.0.1", "", "[", "localhost@evil.example:1/"]
)
def test_wrong_host_is_refused(here, host):
    """Another site's name that leads here, as in DNS rebinding."""
    for path in ("/", "/login?token=x", "/api/v1/me", "/static/index.html"):
        assert here.ann.client.get(path, headers={"Host": host}).status_code == 400


def test_guard_accepts_named_hosts_and_bare_addresses():
    checks = Guard(None, {"labels.example.org"}, any_address=True)
    assert all(
        checks._is_allowed(host)
        for host in ("labels.example.org", "LABELS.example.org:80", "10.0.0.7:8787", "[fe80::1]")
    )
    assert not any(checks._is_allowed(host) for host in ("evil.example", "10.0.0.7.evil.example", ""))


def test_a_site_behind_a_proxy_with_tls_is_not_the_one_without():
    checks = Guard(None, {"labels.example.org"})
    headers = {"host": "labels.example.org", "x-observal": "1", "content-type": "application/json"}
    for scheme, other in (("https", "http"), ("http", "https")):
        assert checks._refuse("POST", scheme, headers | {"origin": f"{scheme}://labels.example.org"}) is None
        status, sentence = checks._refuse("POST", scheme, headers | {"origin": f"{other}://labels.example.org"})
        assert status == 403
        assert "X-Forwarded-Proto" in sentence


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    make_campaign(tmp_path / "c.db")
    server = ThreadServer(tmp_path / "c.db")
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            request = (
                "POST /api/v1/ask HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX-Observal: 1\r\nContent-Type: application/json\r\n"
            )
            connection.sendall(f"{request.format(server.port)}Content-Length: 9\r\n\r\n".encode())
            connection.sendall(b'{"n"')
            reply = b"".join(iter(lambda: connection.recv(4096), b""))  # until the server closes
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert b"did not arrive within 0.3 seconds" in reply
    finally:
        server.stop()


@pytest.mark.parametrize("label", ["", " ", "\t\n"])
def test_an_empty_label_is_refused(here, label):
    reply = here.ann.post("tell", **tell_body(here, label))
    assert reply.status_code == 422
    assert "is empty and nothing was stored; send a class, or null to skip the row" in reply.json()["error"]
    assert here.olga.post("review", key=new_key(), id=here.rows[0]["id"], label=label).status_code == 422


def test_other_methods_are_refused(here):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert here.ann.client.request(method, "/api/v1/tell", headers=OURS).status_code == 405


def test_oversized_bodies_are_refused(here):
    big = b'{"key":"k","answers":[' + b" " * MOST_BYTES + b"]}"
    headers = {**OURS, "Content-Type": "application/json"}
    assert here.ann.client.post("/api/v1/tell", content=big, headers=headers).status_code == 413

    def pieces():
        for _ in range(20):
            yield b" " * (MOST_BYTES // 10)

    assert here.ann.client.post("/api/v1/tell", content=pieces(), headers=headers).status_code == 413
    many = [{"id": "1", "label": "good"}] * 1001
    assert here.ann.post("tell", key=new_key(), answers=many).status_code == 422


def test_malformed_bodies_are_refused(here):
    headers = {**OURS, "Content-Type": "application/json"}
    deep = b"[" * 5000 + b"]" * 5000
    for content in (
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"n": 1e999}',
        b'{"n": "5"}',
        b'{"n": 0}',
        b'{"n": 101}',
        b"\xff\xfe",
        deep,
    ):
        reply = here.ann.client.post("/api/v1/ask", content=content, headers=headers)
        assert reply.status_code in (400, 422), content
        assert set(reply.json()) == {"error"}
    for key in ("", "k" * 65, "a b", "\x00", "\ud800"):
        assert here.ann.post("undo", key=key).status_code == 422


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_every_field_is_refused_as_text(here, text):
    for label in (text, "\ud800"):
        content = {"key": new_key(), "answers": [{"id": here.rows[0]["id"], "label": label}]}
        assert here.ann.post("tell", **content).status_code == 422
    for path in ("tell", "skip", "review"):
        body = {"id": text} if path == "skip" else {"id": text, "label": "good"}
        body = {"answers": [body]} if path == "tell" else body
        reply = here.olga.post(path, key=new_key(), **body)
        assert reply.status_code == 404
        assert reply.headers["content-type"] == "application/json"
    assert here.olga.get("review", params={"all": text}).status_code == 422
    assert here.olga.get("review", params={"first": text}).status_code == 422


def test_key_may_be_anything_printable(here, tmp_path):
    make_campaign(tmp_path / "other.db")
    with pytest.MonkeyPatch.context() as patch, site(patch, tmp_path / "other.db") as found:
        ann = found.browser("ann")
        row = ann.ask(1)["rows"][0]["id"]
        key = "');DROP/**/TABLE/**/observal_reply;--<b>"
        first = ann.tell([(row, truth_of(int(row)))], key)
        assert first.status_code == 200
        assert ann.tell([(row, truth_of(int(row)))], key).json() == first.json()


@pytest.mark.parametrize("text", HOSTILE[:5])
def test_hostile_text_in_the_data_arrives_as_json(tmp_path, monkeypatch, text):
    """In ids, cells, column names, labels and titles: it stays text, and comes back as it was."""
    ids = [f"{text}{i}" for i in range(40)]
    columns = {"id": ids, text: ids, "address": ["http://127.0.0.1:9/x.png"] * 40}
    table_campaign(tmp_path / "c.db", columns, features=["age"], labels=(f"no {text}", f"yes {text}"))
    with site(monkeypatch, tmp_path / "c.db", title=text) as found:
        ann = found.browser("ann")
        me, row = ann.get("me"), ann.ask(1)["rows"][0]
        assert me.headers["content-type"] == "application/json"
        assert me.json()["campaign"]["title"] == text
        assert me.json()["campaign"]["classes"] == [f"no {text}", f"yes {text}"]
        assert row["id"] in ids
        assert next(f for f in row["fields"] if f["name"] == text)["value"] == row["id"]
        assert next(f for f in row["fields"] if f["name"] == "address")["kind"] != "image"
        assert ann.tell([(row["id"], f"yes {text}")]).json()["labels"] == 1
        assert ann.post("undo", key=new_key()).json()["undone"] == {"id": row["id"], "label": f"yes {text}"}


def test_every_reply_has_the_headers(here):
    paths = (
        "/",
        "/progress",
        "/review",
        "/static/index.html",
        "/nothing",
        "/api/v1/me",
        "/api/v1/nothing",
        "/openapi.json",
    )
    replies = [here.ann.client.get(path) for path in paths]
    replies += [here.visitor().get("me"), here.ann.client.get("/", headers={"Host": "evil.example"})]
    replies.append(here.ann.client.get("/login", params={"token": "x"}))
    for reply in replies:
        assert reply.headers["content-security-policy"] == POLICY
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in reply.headers
    assert "unsafe" not in POLICY


def test_page_has_no_inline_script(here):
    text = here.ann.client.get("/").text.lower()
    assert "<script>" not in text
    assert "<style" not in text
    assert " on" not in "".join(part.split(">")[0] for part in text.split("<")[1:] if "=" in part)


def test_static_files_stay_inside_their_folder(here):
    for path in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "..%5capp.py", "/etc/passwd", "%00"):
        reply = here.ann.client.get(f"/static/{path}")
        assert reply.status_code in (400, 404), path
        assert "FastAPI" not in reply.text


# -- images ---------------------------------------------------------------------------------------------------------


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'


def hostile_images(folder):
    """Make a folder of images with traps, and return the cells that must not be served."""
    photos = folder / "photos"
    (photos / "deep").mkdir(parents=True)
    (folder / "secret.png").write_bytes(png())
    (photos / "good.png").write_bytes(png())
    (photos / "picture.svg").write_bytes(SVG)
    (photos / "fake.png").write_bytes(SVG)
    (photos / "page.html").write_bytes(b"<!doctype html><script>alert(1)</script>")
    (photos / "page.png").write_bytes(b"<html><script>alert(1)</script>")
    (photos / "linked.png").symlink_to(folder / "secret.png")
    (photos / "inside.png").symlink_to(photos / "good.png")
    (photos / "way").symlink_to(folder)
    os.mkfifo(photos / "pipe.png")
    return [
        "../secret.png",
        "deep/../../secret.png",
        "..%2fsecret.png",
        "%2e%2e/secret.png",
        "..\\secret.png",
        str(folder / "secret.png"),
        f"{photos}/../secret.png",
        "linked.png",
        "inside.png",
        "way/secret.png",
        "picture.svg",
        "fake.png",
        "page.html",
        "page.png",
        "pipe.png",
        "deep",
        ".",
        "missing.png",
        "x" * 5000,
        "file:///etc/passwd",
        "/etc/passwd",
        "data:image/svg+xml;base64," + base64.b64encode(SVG).decode(),
        "data:image/png;base64," + base64.b64encode(SVG).decode(),
        "data:image/png;base64,%%%",
        "data:text/html;base64," + base64.b64encode(b"<script>").decode(),
    ]


def test_only_raster_images_inside_the_folder_are_served_and_no_address_is_fetched(tmp_path, monkeypatch):
    cells = hostile_images(tmp_path)
    with socket.socket() as trap:
        trap.bind(("127.0.0.1", 0))
        trap.listen(1)
        trap.settimeout(0.2)
        cells.append(f"http://127.0.0.1:{trap.getsockname()[1]}/x.png")
        cells += ["good.png"] * (40 - len(cells))
        table_campaign(tmp_path / "c.db", {"photo": cells}, images=tmp_path / "photos", image_column="photo")
        with site(monkeypatch, tmp_path / "c.db") as found:
            ann = found.browser("ann")
            rows = ann.ask(40)["rows"]
            assert len(rows) == 40
            bob = found.browser("bob")
            for row in rows:
                field = next(f for f in row["fields"] if f["name"] == "photo")
                reply = ann.client.get(field["image"])
                cell = cells[int(row["id"][1:])]
                assert reply.status_code == (200 if cell == "good.png" else 404), cell
                assert reply.headers["content-type"] in ("image/png", "application/json")
                assert reply.headers["x-content-type-options"] == "nosniff"
                assert b"svg" not in reply.content
                assert bob.client.get(field["image"]).status_code == 403
            for path in ("image/0/99", "image/-1/0", "image/0/-1", "image/99999/0", "image/x/0", "image/0/0/../../me"):
                assert ann.get(path).status_code in (403, 404, 422, 200 if path.endswith("me") else 404), path
        with pytest.raises(TimeoutError):
            trap.accept()  # nobody called


# -- anything else ----------------------------------------------------------------------------------------------------


def test_no_request_of_the_openapi_document_makes_the_server_fail(tmp_path, monkeypatch):
    make_campaign(tmp_path / "c.db", label_budget=200)
    with site(monkeypatch, tmp_path / "c.db") as found:
        olga = found.browser("olga", "owner")
        document = olga.client.get("/openapi.json").json()
        assert {path.removeprefix("/api/v1/").split("/")[0] for path in document["paths"]} == {
            *POSTS,
            *GETS,
            "image",
        } - {"image/0/0"}
        schema = schemathesis.openapi.from_dict(document)
        for operation in (result.ok() for result in schema.get_all_operations()):
            if not operation.path.endswith(
                ("/export", "/report")
            ):  # they have no parameters, and fit a model each time
                _attempt(operation, olga)


def _attempt(operation, browser):
    @settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def attempt(case):
        body = {} if case.method == "GET" or isinstance(case.body, NotSet) else {"content": json.dumps(case.body)}
        headers = {**OURS, "Content-Type": "application/json"}
        reply = browser.client.request(
            case.method, case.formatted_path, params=case.query or None, headers=headers, **body
        )
        assert reply.status_code < 500, (case.method, case.formatted_path, case.body, reply.text)

    attempt()
