"""A campaign live in Label Studio: the recorded exchange with a real one, the real one itself, and what may go wrong."""

from __future__ import annotations

import json
import threading
import time

import pytest
from starlette.testclient import TestClient

from observal.campaign import Campaign
from observal.errors import InvalidInput, LabelStudioUnavailable
from observal.exchange.label_studio_api import LabelStudioApi
from observal.server import desk as desk_module
from observal.server.desk import Desk
from observal.server.guard import Guard
from observal.server.routes import create_app
from observal.server.studio import Studio
from tests.command import observal
from tests.label_studio import (
    KEY,
    OUR_ADDRESS,
    RECORDING,
    THEIR_ADDRESS,
    Answering,
    Live,
    Replayed,
    find_label_studio,
    play,
    running_label_studio,
    true_label,
)
from tests.page_server import Server, make_loans
from tests.serving import InThread

needs_label_studio = pytest.mark.skipif(
    find_label_studio() is None, reason="Label Studio is not installed; run scripts/setup_system.sh --label-studio"
)


def labels_of(campaign):
    ledger = campaign.engine.read()
    classes = ledger.settings.classes
    return {str(ledger.ids[p]): None if c is None else classes[c] for p, c in ledger.labels.items()}


def check_scene(campaign):
    """What ``play`` must leave behind: each of nine rows answered once, with the chance it was drawn with."""
    status, labels = campaign.status(), labels_of(campaign)
    assert (status.labels, status.skipped, status.open_rows, status.stopped) == (
        8,
        1,
        0,
        "the label budget of 8 is spent",
    )
    assert status.answers == {"label-studio 1": 8}
    kinds = [entry.kind for entry in campaign.history()]
    assert (kinds.count("corrected"), kinds.count("undone"), kinds.count("round")) == (1, 1, 3)
    queries = campaign.result().queries
    told = dict(zip(queries["id"].tolist(), queries["label"].tolist(), strict=True))
    assert told == {id_: label for id_, label in labels.items() if label is not None}
    rows = {row.id: row for row in campaign.predicted(list(labels))}
    assert all(told[id_] == true_label({"data": {"row": rows[id_].text}}) for id_ in told)
    chances = dict(zip(queries["id"].tolist(), queries["query_probability"].tolist(), strict=True))
    assert chances == {id_: rows[id_].query_probability for id_ in told}


def test_recorded_exchange_gives_the_same_campaign(tmp_path):
    campaign, _ = play(tmp_path, Replayed)
    check_scene(campaign)


# -- a stand-in for Label Studio that keeps tasks and annotations ---------------------------------------------------


class Fake:
    """A Label Studio of a few lines, for what a recording cannot show."""

    def __init__(self):
        self.projects, self.tasks, self.requests = {}, [], []
        self.fail = ""  # a path that is refused
        self.lose = False  # whether the reply to an import gets lost
        self.during = None  # called while tasks are read

    def send(self, method, address, headers, body):
        path = address.removeprefix(f"{THEIR_ADDRESS}/api/").partition("?")[0]
        self.requests.append((method, path))
        content = json.loads(body) if body else None
        if self.fail and path.startswith(self.fail):
            return 400, b'{"detail": "not allowed"}'
        reply = self.reply(method, path, content)
        if self.lose and path.endswith("/import"):
            self.lose = False
            raise TimeoutError("timed out")
        return 200, json.dumps(reply).encode()

    def reply(self, method, path, content):
        if path == "projects/" and method == "POST":
            self.projects[1] = content
            return {"id": 1}
        if path == "projects/":
            return {"results": [{"id": n, **project} for n, project in self.projects.items()], "next": None}
        if path == "projects/1/":
            return self.projects[1]
        if path == "projects/1/import":
            first = len(self.tasks) + 1
            self.tasks += [{"id": n, "project": 1, "annotations": [], **task} for n, task in enumerate(content, first)]
            return {}
        if path == "tasks":
            found = json.loads(json.dumps({"tasks": self.tasks, "total": len(self.tasks)}))
            if self.during is not None:
                self.during()
            return found
        return [] if method == "GET" else {}

    def annotate(self, task, label, user=1, number=None):
        """Add or replace an annotation and return what the webhook would send."""
        known = [a for a in task["annotations"] if a["id"] == number]
        annotation = known[0] if known else {"id": len(task["annotations"]) + 1, "completed_by": user}
        if not known:
            task["annotations"].append(annotation)
        result = [{"from_name": "label", "value": {"choices": [label]}}] if label else []
        annotation |= {"result": result, "updated_at": f"2026-01-01T{len(self.requests):08}"}
        return {
            "action": "ANNOTATION_CREATED",
            "annotation": dict(annotation),
            "task": {k: v for k, v in task.items() if k != "annotations"},
        }


class Scene:
    """A campaign served beside a fake Label Studio, without the thread that keeps them alike."""

    def __init__(self, folder, fake=None, **settings):
        make_loans(folder / "c.db", **{"labels": 8, "batch": 4, **settings})
        self.fake, self.said = fake or Fake(), []
        self.desk = Desk(str(folder / "c.db"))
        self.studio = Studio(
            LabelStudioApi(THEIR_ADDRESS, KEY, self.fake.send), self.desk, None, OUR_ADDRESS, self.said.append
        )
        guarded = Guard(create_app(self.desk, self.studio), tool_token=self.studio.token)
        self.client = TestClient(guarded, base_url=OUR_ADDRESS, raise_server_exceptions=False)
        self.where = folder / "c.db"

    def synchronise(self):
        deadline = time.monotonic() + 60
        while self.desk.worker.fitting:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.studio.look_again()
        self.studio.synchronise()
        return self.fake.tasks

    def post(self, path, body, token=None):
        headers = {"Authorization": f"Bearer {token or self.studio.token}"}
        return self.client.post(f"/label-studio/{path}", json=body, headers=headers)

    def labels(self):
        return labels_of(Campaign.open(self.where))


@pytest.fixture
def scene(tmp_path, monkeypatch):
    monkeypatch.setattr(desk_module, "Worker", InThread)
    made = []

    def make(*arguments, **settings):
        made.append(Scene(tmp_path, *arguments, **settings))
        return made[-1]

    yield make
    for found in made:
        found.desk.close()


@pytest.mark.parametrize("header", ["Bearer wrong", "Basic d3Jvbmc=", "Basic ???", "", "Token"])
def test_wrong_token_is_refused(scene, header):
    here = scene()
    for method, path in (("GET", "health"), ("POST", "predict"), ("POST", "webhook"), ("POST", "setup")):
        reply = here.client.request(method, f"/label-studio/{path}", json={}, headers={"Authorization": header})
        assert reply.status_code == 401
        assert reply.json()["error"].startswith("The token is wrong")


def test_nothing_answers_to_label_studio_without_the_option(tmp_path, monkeypatch):
    monkeypatch.setattr(desk_module, "Worker", InThread)
    make_loans(tmp_path / "c.db")
    desk = Desk(str(tmp_path / "c.db"))
    client = TestClient(Guard(create_app(desk)), base_url=OUR_ADDRESS)
    assert client.get("/label-studio/health").status_code == 404
    assert client.post("/label-studio/webhook", json={}).status_code == 403
    desk.close()


def test_lost_reply_to_an_import_makes_no_second_task(scene):
    here = scene()
    here.fake.lose = True
    with pytest.raises(LabelStudioUnavailable, match="cannot be reached"):
        here.synchronise()
    tasks = here.synchronise()
    assert len({task["data"]["id"] for task in tasks}) == len(tasks) == 4


def test_answer_told_while_tasks_are_read_is_kept(scene):
    here = scene()
    task = here.synchronise()[0]
    here.post("webhook", here.fake.annotate(task, "no"))

    def edit():
        here.fake.during = None
        assert here.post("webhook", here.fake.annotate(task, "yes", number=1)).json() == {"stored": 1}

    here.fake.during = edit  # what is being read still says no
    here.synchronise()
    assert here.labels() == {task["data"]["id"]: "yes"}


def test_of_two_annotations_by_one_person_the_latest_counts_until_it_is_deleted(scene):
    here = scene()
    task = here.synchronise()[0]
    for label in ("no", "yes"):
        here.post("webhook", here.fake.annotate(task, label))
    assert here.labels() == {task["data"]["id"]: "yes"}
    task["annotations"].pop()
    here.post("webhook", {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 2}]})
    here.synchronise()
    assert here.labels() == {task["data"]["id"]: "no"}


def test_cleared_annotation_takes_the_answer_back(scene):
    here = scene()
    task = here.synchronise()[0]
    here.post("webhook", here.fake.annotate(task, "no"))
    assert here.post("webhook", here.fake.annotate(task, None, number=1)).json() == {"stored": 0}
    here.synchronise()
    assert here.labels() == {}


def test_deleted_task_keeps_its_answer_and_an_open_row_comes_back(scene):
    here = scene()
    first, second = (task["data"]["id"] for task in here.synchronise()[:2])
    here.post("webhook", here.fake.annotate(here.fake.tasks[0], "no"))
    del here.fake.tasks[:2]
    here.synchronise()
    assert here.labels() == {first: "no"}
    assert second in [task["data"]["id"] for task in here.fake.tasks]
    assert first not in [task["data"]["id"] for task in here.fake.tasks]


def test_answers_of_two_people_make_a_majority(scene):
    here = scene(overlap=2)
    task = here.synchronise()[0]
    here.post("webhook", here.fake.annotate(task, "no", user=1))
    assert here.labels() == {}
    here.post("webhook", here.fake.annotate(task, "no", user=2))
    assert here.labels() == {task["data"]["id"]: "no"}
    assert here.fake.projects[1]["maximum_annotations"] == 2


def test_unknown_class_is_refused_and_named_once(scene):
    here = scene()
    task, other = here.synchronise()[:2]
    reply = here.post("webhook", here.fake.annotate(task, "perhaps"))
    assert reply.status_code == 422
    assert "'perhaps' is not one of the classes" in reply.json()["error"]
    here.fake.annotate(other, "yes")  # told only when tasks are read
    here.synchronise()
    here.synchronise()
    assert here.labels() == {other["data"]["id"]: "yes"}
    assert sum("were not stored" in sentence for sentence in here.said) == 1


@pytest.mark.parametrize(
    "body", [{}, {"annotation": 3, "task": []}, {"annotation": {"result": 3}, "task": {"data": 3}}]
)
def test_strange_calls_store_nothing(scene, body):
    here = scene()
    here.synchronise()
    assert here.post("webhook", body).json() == {"stored": 0}
    assert here.post("predict", body).status_code == 422
    task = here.fake.tasks[0]
    broken = {"annotation": {"result": [{"value": 3}]}, "task": {"data": task["data"], "project": 1}}
    assert here.post("webhook", broken).status_code == 422
    assert here.labels() == {}


def test_another_project_is_refused(scene):
    here = scene()
    task = here.synchronise()[0]
    assert here.post("setup", {"project": "1.17"}).json() == {"model_version": "observal round 0"}
    assert "start observal with --project 2" in here.post("setup", {"project": "2.17"}).json()["error"]
    copied = here.fake.annotate(task, "yes")
    copied["task"]["project"] = 2
    assert here.post("webhook", copied).json() == {"stored": 0}


def test_predictions_carry_class_score_and_reason(scene):
    here = scene()
    task = here.synchronise()[0]
    foreign = {"id": 99, "data": {"id": task["data"]["id"]}}
    known, unknown = here.post("predict", {"tasks": [task, foreign]}).json()["results"]
    assert unknown == {"result": [], "score": None, "model_version": "observal round 0"}
    (choice,) = known["result"]
    assert choice["meta"] == {"text": [task["data"]["reason"]]}
    row = Campaign.open(here.where).predicted([task["data"]["id"]])[0]
    assert (choice["value"], known["score"]) == ({"choices": [row.prediction]}, pytest.approx(row.score))


def test_project_is_found_again_and_a_wrong_one_refused(scene, tmp_path):
    here = scene()
    again = Studio(here.studio.api, here.desk, None, OUR_ADDRESS)
    assert (again.project, here.fake.requests.count(("POST", "projects/"))) == (1, 1)
    assert again.token != here.studio.token
    here.fake.projects[1]["label_config"] = "<View><Choices name='label'><Choice value='no'/></Choices></View>"
    with pytest.raises(InvalidInput, match="Project 1 has no choice 'yes' under the name 'label'"):
        Studio(here.studio.api, here.desk, 1, OUR_ADDRESS)


def test_answers_are_read_if_label_studio_may_not_call(scene):
    here = scene()
    here.fake.fail = "webhooks/"
    here.studio.connect()
    assert "not allowed" in here.said[0]
    assert "SSRF_PROTECTION_ENABLED=false" in here.said[0]
    task = here.synchronise()[0]
    here.fake.annotate(task, "no")
    here.synchronise()
    assert here.labels() == {task["data"]["id"]: "no"}


def test_thread_brings_rows_and_answers_until_it_is_stopped(scene):
    here = scene()
    with here.client:  # runs the thread
        deadline = time.monotonic() + 60
        while len(here.labels()) < 8:
            assert time.monotonic() < deadline
            for task in [t for t in here.fake.tasks if not t["annotations"]]:
                assert here.post("webhook", here.fake.annotate(task, true_label(task))).status_code == 200
            time.sleep(0.05)
    assert not any(thread.name == "label-studio" for thread in threading.enumerate())
    assert here.labels() == {task["data"]["id"]: true_label(task) for task in here.fake.tasks}


def test_personal_access_token_is_swapped_and_renewed():
    seen, lifetimes = [], [1, 5]

    def transport(method, address, headers, body):
        seen.append((address.rpartition("/api/")[2], headers.get("Authorization")))
        if address.endswith("token/refresh"):
            return 200, json.dumps({"access": f"short-{len(seen)}"}).encode()
        lifetimes[0] -= 1
        if lifetimes[0] < 0:
            lifetimes.pop(0)
            return 401, b"{}"
        return 200, b"[]"

    api = LabelStudioApi(THEIR_ADDRESS, "a.b.c", transport)
    assert [api.call("GET", "users/") for _ in range(2)] == [[], []]
    assert [what for what, _ in seen] == ["token/refresh", "users/", "users/", "token/refresh", "users/"]
    assert [how for what, how in seen if what == "users/"] == ["Bearer short-1", "Bearer short-1", "Bearer short-4"]


@pytest.mark.parametrize(
    ("status", "reply", "sentence"),
    [
        (
            401,
            b'{"detail": "Invalid token."}',
            r"status 401 \(Invalid token\); put a valid key into .* LABEL_STUDIO_API_KEY\.",
        ),
        (404, b"<html>", r"status 404 \(no reason given\); correct the address"),
        (500, b"[3]", "see what its log says"),
        (200, b"<html>", "it is not Label Studio"),
    ],
)
def test_refusals_say_what_to_do(status, reply, sentence):
    api = LabelStudioApi(f"{THEIR_ADDRESS}/", KEY, lambda *_: (status, reply))
    with pytest.raises(LabelStudioUnavailable, match=sentence):
        api.find_project("c")


def test_personal_access_token_that_is_refused_says_so():
    api = LabelStudioApi(THEIR_ADDRESS, "a.b.c", lambda *_: (401, b'{"detail": "Token is blacklisted"}'))
    with pytest.raises(LabelStudioUnavailable, match="did not accept the personal access token"):
        api.call("GET", "users/")


def test_command_says_what_is_missing(tmp_path, monkeypatch):
    make_loans(tmp_path / "c.db")
    monkeypatch.delenv("LABEL_STUDIO_API_KEY", raising=False)
    done = observal("serve", "c.db", "--label-studio", "http://127.0.0.1:1", cwd=tmp_path)
    assert "LABEL_STUDIO_API_KEY is empty" in done.stderr
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", KEY)
    done = observal("serve", "c.db", "--port", "0", "--label-studio", "http://127.0.0.1:1", cwd=tmp_path)
    assert (done.returncode, "cannot be reached" in done.stderr) == (1, True)
    done = observal("serve", "c.db", "--label-studio", "127.0.0.1", cwd=tmp_path)
    assert "begins with http" in done.stderr
    assert observal("serve", "c.db", "--project", "3", cwd=tmp_path).returncode == 2


# -- the real one ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_label_studio
def test_real_label_studio_says_what_was_recorded(tmp_path):
    with running_label_studio() as address:
        campaign, live = play(tmp_path, lambda _: Live(address))
    check_scene(campaign)

    def outline(calls):
        return [
            (
                c["method"],
                c["path"],
                c["status"],
                [(b["path"], b["reply"]) for b in c["callbacks"] if b["path"] != "/label-studio/predict"],
            )
            for c in calls
        ]

    assert outline(live.calls) == outline(json.loads(RECORDING.read_text()))


@pytest.mark.slow
@needs_label_studio
def test_two_hundred_annotations_are_stored_once_and_give_the_same_model(tmp_path, monkeypatch):
    """Three people answer at once, out of order, with edits, deletions and a server that is killed; the model equals one told directly."""
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", KEY)
    settings = {"labels": 200, "batch": 25, "tolerance": None}
    make_loans(tmp_path / "live.db", **settings)
    with running_label_studio() as address:
        server = Server(tmp_path / "live.db", "--label-studio", address)
        try:
            answered = label_all(address, server, 200)
        finally:
            server.stop()
    live, direct = Campaign.open(tmp_path / "live.db"), make_loans(tmp_path / "direct.db", **settings)
    assert live.check().labels == live.status().labels == 200
    assert labels_of(live) == answered
    while batch := direct.ask():
        direct.tell(batch.ids, [answered[id_] for id_ in batch.ids])
    one, other = live.result(), direct.result()
    for name in ("id", "round", "query_probability", "label"):
        by_place = [sorted(zip(result.queries["id"], result.queries[name], strict=True)) for result in (one, other)]
        assert by_place[0] == by_place[1], name
    pool = direct.problem.pool.X
    assert (one.estimator.predict_proba(pool) == other.estimator.predict_proba(pool)).all()
    assert one.error_interval == other.error_interval


def label_all(address, server, labels):
    """Answer until so many rows have a label, and return the label of each."""
    ann, truth, killed = Answering(address), {}, False
    project = ann.api.call("GET", "projects/")["results"][0]["id"]
    deadline = time.monotonic() + 1500
    while len(truth) < labels:
        assert time.monotonic() < deadline, len(truth)
        tasks = ann.api.call("GET", "tasks", project=project, fields="all", page_size=500)["tasks"]
        todo = [task for task in tasks if task["data"]["id"] not in truth]
        if len(truth) >= labels // 2 and not killed and todo:
            killed = True
            server.kill()
            for task in todo[: len(todo) // 2]:
                ann.answer(task, true_label(task))
            server.start()
            truth |= {task["data"]["id"]: true_label(task) for task in todo[: len(todo) // 2]}
            continue
        last = len(todo) * 2 // 3  # a round must not close while an answer is wrong: its model would choose other rows
        for part, change in ((todo[:last], True), (todo[last:], False)):
            threads = [threading.Thread(target=answer_some, args=(address, part[k::3], change)) for k in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        truth |= {task["data"]["id"]: true_label(task) for task in todo}
        time.sleep(0.2)
    time.sleep(8)  # what was deleted or answered meanwhile is read
    return truth


def answer_some(address, tasks, change):
    ann = Answering(address)
    for number, task in enumerate(reversed(tasks)):
        wrong = "no" if true_label(task) == "yes" else "yes"
        if change and number % 4 == 0:
            ann.edit(ann.answer(task, wrong), true_label(task))
        elif change and number % 4 == 1:
            ann.delete(ann.answer(task, wrong))
            ann.answer(task, true_label(task))
        else:
            ann.answer(task, true_label(task))
