"""The routes: the page, signing in, and the JSON API under ``/api/v1``."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from observal import __version__
from observal.errors import CampaignUnavailable, ConflictingAnswer, InvalidInput, ObservalError, UnknownRow
from observal.server import bodies
from observal.server.desk import Desk, Refused
from observal.server.desk_thread import DeskThread
from observal.server.guard import TOOL
from observal.server.images import load_image
from observal.server.studio import Studio

STATIC = Path(__file__).parent / "static"
DAY = 86_400
_STATUS = {UnknownRow: 404, ConflictingAnswer: 409, InvalidInput: 422, CampaignUnavailable: 503}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.Problem} for status in (400, 401, 403, 404, 405, 409, 413, 415, 422, 503)
}
T = TypeVar("T")


@dataclass(frozen=True)
class DeskCalls:
    """Calls of the desk in its one thread, each with the cookie of the request it is for."""

    desk: Desk
    thread: DeskThread

    async def __call__(self, request: Request, work: Callable[[str | None], T], write: bool = False) -> T:
        """Do some work at the desk; what it writes is on disk when this returns."""
        cookie = request.cookies.get(self.desk.cookie)
        return await asyncio.wrap_future(self.thread.submit(lambda: work(cookie), write))


def create_app(desk: Desk, studio: Studio | None = None) -> FastAPI:
    """Return the application; ``observal.server.guard.Guard`` must stand before it.

    `studio` is the Label Studio in which the campaign is labelled as well.
    """
    thread = DeskThread(desk.transaction, desk.store.settle)
    at_desk = DeskCalls(desk, thread)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if studio is not None:
            studio.start()
        yield
        if studio is not None:
            studio.stop()
        thread.shutdown()
        desk.close()

    app = FastAPI(
        title="observal", version=__version__, lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None
    )
    _add_errors(app)
    _add_page(app, at_desk)
    api = APIRouter(prefix="/api/v1", responses=_REFUSALS)
    _add_labelling(api, at_desk)
    _add_progress(api, at_desk)
    _add_owner(api, at_desk)
    app.include_router(api)
    if studio is not None:
        _add_label_studio(app, at_desk, studio)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> JSONResponse:
        await at_desk(request, desk.me)
        return JSONResponse(app.openapi())

    return app


def _add_errors(app: FastAPI) -> None:
    """Answer every error with one sentence."""

    def problem(status: int, sentence: str) -> JSONResponse:
        return JSONResponse(bodies.Problem(error=sentence), status)

    @app.exception_handler(ObservalError)
    async def ours(_: Request, error: ObservalError) -> JSONResponse:
        if isinstance(error, Refused):
            return problem(error.status, str(error))
        return problem(next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500), str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = " → ".join(str(part) for part in first["loc"])
        return problem(422, f"The request is not valid: {place}: {first['msg']}.")

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, "There is no such page." if error.status_code == 404 else str(error.detail))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return problem(
            500, "Something went wrong in the server and nothing was stored; see its terminal for the cause."
        )


def _add_page(app: FastAPI, at_desk: DeskCalls) -> None:
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    for path in ("/", "/progress", "/review"):
        app.get(path, include_in_schema=False)(page)

    @app.get("/login", include_in_schema=False)
    async def offer_login(request: Request, token: str = "") -> Response:
        # A scanner of mail follows links, so only the button on this page uses the link up.
        try:
            await at_desk(request, lambda _: at_desk.desk.check_link(token))
        except Refused as refusal:
            return PlainTextResponse(str(refusal), refusal.status)
        return FileResponse(STATIC / "index.html")

    @app.post("/login", include_in_schema=False)
    async def login(request: Request, body: bodies.SignIn) -> Response:
        secret = await at_desk(request, lambda _: at_desk.desk.sign_in(body.token), write=True)
        reply = Response(status_code=204)
        secure = request.url.scheme == "https"
        reply.set_cookie(at_desk.desk.cookie, secret, 30 * DAY, httponly=True, samesite="strict", secure=secure)
        return reply


def _add_labelling(api: APIRouter, at_desk: DeskCalls) -> None:
    desk = at_desk.desk

    @api.get("/me")
    async def me(request: Request) -> bodies.Me:
        """Who is signed in, and what the campaign is about."""
        return await at_desk(request, desk.me)

    @api.post("/ask")
    async def ask(request: Request, body: bodies.Ask) -> bodies.Rows:
        """Rows to label now; asking again gives the same rows. It never waits for a fit."""
        return await at_desk(request, lambda cookie: desk.next_rows(cookie, body.n), write=True)

    @api.post("/tell")
    async def tell(request: Request, body: bodies.Tell) -> bodies.Told:
        """Store answers: all or none, and once for each key."""
        answers = [(answer.id, answer.label) for answer in body.answers]
        return await at_desk(request, lambda cookie: desk.answer(cookie, body.key, answers), write=True)

    @api.post("/skip")
    async def skip(request: Request, body: bodies.Skip) -> bodies.Told:
        """Skip a row."""
        return await at_desk(request, lambda cookie: desk.answer(cookie, body.key, [(body.id, None)]), write=True)

    @api.post("/undo")
    async def undo(request: Request, body: bodies.Undo) -> bodies.Undone:
        """Take back your latest answer or skip; the row is yours again."""
        return await at_desk(request, lambda cookie: desk.take_back(cookie, body.key), write=True)

    @api.post("/flag")
    async def flag(request: Request, body: bodies.Flag) -> bodies.Flagged:
        """Flag a row that you were given, with a comment or without, for owners to look at."""
        return await at_desk(request, lambda cookie: desk.flag(cookie, body.key, body.id, body.text), write=True)

    @api.get("/image/{position}/{number}", response_class=Response)
    async def image(request: Request, position: int, number: int) -> Response:
        """Return the image in a cell of a row that you were given."""
        if min(position, number) < 0:
            raise Refused(404, "There is no image here.")
        cell = await at_desk(request, lambda cookie: desk.image_cell(cookie, position, number))
        loaded = await run_in_threadpool(load_image, desk.images, cell)
        if loaded is None:
            raise Refused(
                404, "There is no image here: no such file inside the folder of images, or not a raster image."
            )
        content, kind = loaded
        return Response(content, media_type=kind, headers={"cache-control": "private, max-age=3600"})


def _add_progress(api: APIRouter, at_desk: DeskCalls) -> None:
    desk = at_desk.desk

    @api.get("/status")
    async def status(request: Request) -> bodies.Status:
        """How far the campaign is."""
        return await at_desk(request, desk.progress)

    @api.get("/rounds")
    async def rounds(request: Request) -> bodies.Rounds:
        """Return the error after each closed round, and what the stopping rule says."""
        return await at_desk(request, desk.measured)


def _add_owner(api: APIRouter, at_desk: DeskCalls) -> None:
    desk = at_desk.desk

    @api.get("/review")
    async def review(
        request: Request,
        all: bool = False,
        first: Annotated[int, Query(ge=0, le=10**9)] = 0,
        only: bodies.Only = "all",
        find: Annotated[str, Query(max_length=1000)] = "",
        row: Annotated[str, Query(max_length=10_000)] = "",
    ) -> bodies.Review:
        """Rows on which people disagree; with `all` every answered or flagged row, or `only` some kind or those with the words of `find`.

        `row` is the id of a single row. For owners.
        """
        return await at_desk(request, lambda cookie: desk.answered(cookie, all, first, only, find, row))

    @api.post("/review")
    async def decide(request: Request, body: bodies.Decision) -> bodies.Decided:
        """Decide a row, whatever others answered. For owners."""
        return await at_desk(request, lambda cookie: desk.settle(cookie, body.key, body.id, body.label), write=True)

    @api.get("/history")
    async def history(request: Request) -> bodies.History:
        """Return the journal in words. For owners."""
        return await at_desk(request, desk.entries)

    async def send_file(request: Request, kind: Literal["model", "report"], ending: str) -> FileResponse:
        await at_desk(request, desk.check_owner)
        folder = tempfile.TemporaryDirectory(prefix="observal-")
        path = Path(folder.name) / f"campaign.{ending}"
        await asyncio.wrap_future(desk.worker.write(kind, str(path), desk.title))
        name = f"{desk.store.title or 'campaign'}.{ending}"
        return FileResponse(path, filename=name, background=BackgroundTask(folder.cleanup))

    @api.get("/export", response_class=FileResponse)
    async def export(request: Request) -> FileResponse:
        """Return the model as a file for `observal.load_model`. For owners."""
        return await send_file(request, "model", "model")

    @api.get("/report", response_class=FileResponse)
    async def report(request: Request) -> FileResponse:
        """Return the report as a single HTML file, to be downloaded. For owners."""
        return await send_file(request, "report", "html")


def _add_label_studio(app: FastAPI, at_desk: DeskCalls, studio: Studio) -> None:
    """Answer as one of Label Studio's ML backends does; the guard has checked the token."""
    studio.submit = at_desk.thread.submit
    tool = APIRouter(prefix=TOOL, include_in_schema=False)

    @tool.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "UP", "model_class": "observal"}

    @tool.get("/versions")
    async def versions() -> dict[str, list[str]]:
        return {"versions": [studio.version]}

    @tool.post("/setup")
    async def setup(body: dict[str, Any]) -> dict[str, Any]:
        return studio.set_up(body)

    @tool.post("/predict")
    async def predict(body: dict[str, Any]) -> dict[str, Any]:
        return await run_in_threadpool(studio.predict, studio.row_ids(body))

    @tool.post("/webhook")
    async def webhook(request: Request, body: dict[str, Any]) -> dict[str, int]:
        return await at_desk(request, lambda _: studio.receive(body), write=True)

    app.include_router(tool)
