"""Label Studio's own API, as far as a campaign needs it: a project, its tasks, a tab, a webhook and a model. Nothing of Label Studio is imported."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen
from xml.etree import ElementTree

from observal.errors import InvalidInput, LabelStudioUnavailable, one_line
from observal.exchange.label_tools import AGENT, QUESTION, label_studio_config

CAMPAIGN = "observal"
"""The field of a task that says which campaign it belongs to; other tasks of the project are left alone."""
SECONDS = 30.0  # in which Label Studio must answer
PAGE = 500  # tasks, projects and the like in one answer
MOST_TASKS = 200  # in one request
ACTIONS = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED", "TASKS_DELETED")
# Columns that the tab does not show, so that order, reason, answer and prediction fit on a screen.
_HIDDEN = [
    f"tasks:{name}"
    for name in (
        *("inner_id", "completed_at", "total_annotations", "cancelled_annotations", "total_predictions", "annotators"),
        *("annotations_ids", "file_upload", "storage_filename", "created_at", "updated_at", "updated_by"),
        *("avg_lead_time", "draft_exists", f"data.{CAMPAIGN}", "data.query_probability"),
    )
]
Transport = Callable[[str, str, Mapping[str, str], bytes | None], tuple[int, bytes]]
"""From method, address, headers and body of a request to status and body of the reply."""


def send(method: str, address: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, bytes]:
    """Send a request; raises OSError if there is no reply."""
    request = Request(address, data=body, headers=dict(headers), method=method)
    try:
        with urlopen(request, timeout=SECONDS) as reply:
            return reply.status, reply.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


class LabelStudioApi:
    """A Label Studio that we may change.

    `token` is the key of a user: a personal access token, or a legacy token. Tests replace `transport`, which sends requests.
    """

    def __init__(self, address: str, token: str, transport: Transport = send) -> None:
        if not address.startswith(("http://", "https://")):
            raise InvalidInput(
                f"The address of Label Studio begins with http:// or https://, but {address!r} was given; give the whole address."
            )
        self.address = address.rstrip("/")
        self._token, self._transport = token, transport
        self._personal = token.count(".") == 2  # a JSON web token, which is swapped for one that lasts minutes
        self._access = ""

    # -- requests -----------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """Send a request and return the reply, or raise an error that says what Label Studio said."""
        if self._personal and not self._access:
            self._swap_token()
        status, reply = self._send(method, path, body, query)
        if status == 401 and self._personal:
            self._swap_token()
            status, reply = self._send(method, path, body, query)
        if status >= 400:
            raise LabelStudioUnavailable(
                f"Label Studio refused {method} /api/{path} with status {status} ({_detail(reply)}); "
                f"{_ADVICE.get(status, 'see what its log says')}."
            )
        return _decode(reply)

    def _swap_token(self) -> None:
        status, reply = self._send("POST", "token/refresh", {"refresh": self._token}, {}, signed=False)
        if status >= 400:
            raise LabelStudioUnavailable(
                f"Label Studio did not accept the personal access token ({_detail(reply)}); {_ADVICE[401]}."
            )
        self._access = str(_decode(reply)["access"])

    def _send(
        self, method: str, path: str, body: object, query: Mapping[str, object], signed: bool = True
    ) -> tuple[int, bytes]:
        address = f"{self.address}/api/{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Content-Type": "application/json"}
        if signed:
            headers["Authorization"] = f"Bearer {self._access}" if self._personal else f"Token {self._token}"
        try:
            return self._transport(method, address, headers, None if body is None else json.dumps(body).encode())
        except (OSError, URLError) as error:
            raise LabelStudioUnavailable(
                f"Label Studio at {self.address} cannot be reached ({one_line(error, 120)}); start it, or correct the address."
            ) from None

    # -- the project --------------------------------------------------------------------------------------------

    def find_project(self, campaign: str) -> int | None:
        """Return the project that was made for a campaign, if there is one."""
        for page in count(1):
            reply = self.call("GET", "projects/", page=page, page_size=PAGE)
            for project in reply["results"]:
                if _describe_project(campaign) in (project.get("description") or ""):
                    return int(project["id"])
            if not reply.get("next"):
                break
        return None

    def make_project(self, campaign: str, title: str, classes: Sequence[str], overlap: int) -> int:
        """Make a project for a campaign and return its number."""
        settings = {
            "title": title if len(title) >= 3 else f"{AGENT} {title}",  # Label Studio wants three characters
            "description": _describe_project(campaign),
            "label_config": label_studio_config(classes),
            "sampling": "Sequential sampling",
            "skip_queue": "IGNORE_SKIPPED",  # a skip is an answer
            "maximum_annotations": overlap,
            "show_collab_predictions": False,  # what the model thinks would sway people
        }
        return int(self.call("POST", "projects/", settings)["id"])

    def check_project(self, project: int, classes: Sequence[str]) -> None:
        """Refuse a project in which a row's class could not be chosen."""
        config = self.call("GET", f"projects/{project}/")["label_config"]
        controls = [tag for tag in ElementTree.fromstring(config).iter("Choices") if tag.get("name") == QUESTION]
        choices = {choice.get("value") for tag in controls for choice in tag.iter("Choice")}
        if missing := [name for name in classes if name not in choices]:
            raise InvalidInput(
                f"Project {project} has no choice {missing[0]!r} under the name {QUESTION!r}; give it the labelling config that "
                "`observal export --label-studio` writes, or leave out --project to have a project made."
            )

    def make_tab(self, project: int, campaign: str) -> None:
        """Make a tab with the campaign's rows in the order in which they were asked about, if there is none."""
        if any(tab["data"].get("title") == AGENT for tab in self.call("GET", "dm/views/", project=project)):
            return
        ours = {"filter": f"filter:tasks:data.{CAMPAIGN}", "operator": "equal", "type": "String", "value": campaign}
        tab = {
            "title": AGENT,
            "ordering": ["tasks:data.order"],
            "columnsDisplayType": {"tasks:data.order": "Number"},  # else 10 comes before 9
            "filters": {"conjunction": "and", "items": [ours]},
            "hiddenColumns": {"explore": _HIDDEN, "labeling": _HIDDEN},
        }
        self.call("POST", "dm/views/", {"project": project, "data": tab}, project=project)

    # -- what it is to call -------------------------------------------------------------------------------------

    def connect_webhook(self, project: int, url: str, token: str) -> None:
        """Have answers sent to us at once."""
        hook = {
            "project": project,
            "url": f"{url}/webhook",
            "send_payload": True,
            "send_for_all_actions": False,
            "actions": list(ACTIONS),
            "headers": {"Authorization": f"Bearer {token}"},
        }
        ours = [old for old in self.call("GET", "webhooks/", project=project) if old["url"] == hook["url"]]
        if ours:
            self.call("PATCH", f"webhooks/{ours[0]['id']}/", hook)
        else:
            self.call("POST", "webhooks/", hook)

    def connect_model(self, project: int, url: str, token: str) -> None:
        """Have us predict; after the webhook, because Label Studio would add one of its own without our token."""
        model = {
            "project": project,
            "url": url,
            "title": AGENT,
            "auth_method": "BASIC_AUTH",
            "basic_auth_user": AGENT,
            "basic_auth_pass": token,
        }
        ours = [old for old in self.call("GET", "ml/", project=project) if old["url"] == url]
        if ours:
            self.call("PATCH", f"ml/{ours[0]['id']}", model)
        else:
            self.call("POST", "ml/", model)

    # -- tasks --------------------------------------------------------------------------------------------------

    def tasks(self, project: int, campaign: str) -> list[dict[str, Any]]:
        """Return the campaign's tasks with their annotations."""
        found: list[dict[str, Any]] = []
        seen = 0
        for page in count(1):
            reply = self.call("GET", "tasks", project=project, fields="all", page=page, page_size=PAGE)
            seen += len(reply["tasks"])
            found += [task for task in reply["tasks"] if is_ours(task, campaign)]
            if seen >= reply["total"] or not reply["tasks"]:
                return found
        raise AssertionError("pages are counted without end")

    def add_tasks(self, project: int, campaign: str, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Add tasks, marked as the campaign's."""
        marked = [{**task, "data": {**task["data"], CAMPAIGN: campaign}} for task in tasks]
        for start in range(0, len(marked), MOST_TASKS):
            self.call("POST", f"projects/{project}/import", marked[start : start + MOST_TASKS])


def is_ours(task: Mapping[str, Any], campaign: str) -> bool:
    """Return whether a task was made for a campaign."""
    data = task.get("data")
    return isinstance(data, dict) and data.get(CAMPAIGN) == campaign and "id" in data


def _describe_project(campaign: str) -> str:
    return f"Rows that the observal campaign {campaign} asks about."


_ADVICE = {
    401: "put a valid key into the environment variable LABEL_STUDIO_API_KEY",
    404: "correct the address or the number of the project",
}


def _detail(reply: bytes) -> str:
    """Return what a refusal says, in one line."""
    try:
        content = json.loads(reply)
        return one_line(content.get("validation_errors") or content.get("detail") or content, 200)
    except (ValueError, AttributeError):
        return "no reason given"


def _decode(reply: bytes) -> Any:
    try:
        return json.loads(reply) if reply else None
    except ValueError:
        raise LabelStudioUnavailable(
            "Something answers at this address, but it is not Label Studio; give the address at which you open Label Studio."
        ) from None
