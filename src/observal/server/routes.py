"""The routes: the page, signing in, and the JSON API under ``/api/v1``."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from observal import __version__
from observal.errors import CampaignUnavailable, ConflictingAnswer, InvalidInput, ObservalError, UnknownRow
from observal.server import bodies
from observal.server.desk import Desk, Refused
from observal.server.images import load_image
from observal.server.priority_thread import PriorityThread

STATIC = Path(__file__).parent / "static"
DAY = 86_400
_STATUS = {UnknownRow: 404, ConflictingAnswer: 409, InvalidInput: 422, CampaignUnavailable: 503}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.Problem} for status in (400, 401, 403, 404, 405, 409, 413, 415, 422, 503)
}


def create_app(desk: Desk) -> FastAPI:
    """Return the application; :class:`observal.server.guard.Guard` must stand before it.

    Parameters
    ----------
    desk : Desk
        The campaign.
    """
    thread = PriorityThread()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        thread.shutdown()
        desk.close()

    app = FastAPI(
        title="observal", version=__version__, lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None
    )

    async def at_desk(function: Callable[..., Any], request: Request, *arguments: Any, urgent: bool = False) -> Any:
        cookie = request.cookies.get(desk.cookie)
        return await asyncio.wrap_future(thread.submit(function, cookie, *arguments, urgent=urgent))

    _add_errors(app)
    _add_page(app, desk, thread)
    _add_labelling(app, desk, at_desk)
    _add_progress(app, desk, at_desk)
    _add_owner(app, desk, at_desk)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Any:
        await at_desk(desk.me, request)
        return JSONResponse(app.openapi())

    return app


def _add_errors(app: FastAPI) -> None:
    """Answer every error with one sentence."""

    def problem(status: int, sentence: str) -> JSONResponse:
        return JSONResponse({"error": sentence}, status)

    @app.exception_handler(ObservalError)
    async def ours(_: Request, error: ObservalError) -> JSONResponse:
        status = getattr(error, "status", None) or next(
            (s for kind, s in _STATUS.items() if isinstance(error, kind)), 500
        )
        return problem(status, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = " → ".join(str(part) for part in first["loc"])
        return problem(422, f"The request is not valid: {where}: {first['msg']}.")

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, "There is nothing here." if error.status_code == 404 else str(error.detail))

    @app.exception_handler(Exception)
    async def other(_: Request, error: Exception) -> JSONResponse:
        return problem(500, "Something went wrong in the server and nothing was stored; its terminal says what.")


def _add_page(app: FastAPI, desk: Desk, thread: PriorityThread) -> None:
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    for path in ("/", "/progress", "/review"):
        app.get(path, include_in_schema=False)(page)

    @app.get("/login", include_in_schema=False)
    async def login(request: Request, token: str = "") -> Response:
        try:
            secret = await asyncio.wrap_future(thread.submit(desk.sign_in, token))
        except Refused as refusal:
            return PlainTextResponse(str(refusal), refusal.status)
        reply = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        reply.set_cookie(desk.cookie, secret, 30 * DAY, httponly=True, samesite="strict", secure=secure)
        return reply


def _add_labelling(app: FastAPI, desk: Desk, at_desk: Callable[..., Any]) -> None:
    @app.get("/api/v1/me", response_model=bodies.Me, responses=_REFUSALS)
    async def me(request: Request) -> Any:
        """Who is signed in, and what the campaign is about."""
        return JSONResponse(await at_desk(desk.me, request))

    @app.post("/api/v1/ask", response_model=bodies.Rows, responses=_REFUSALS)
    async def ask(request: Request, body: bodies.Ask) -> Any:
        """Rows to label now; asking again gives the same rows. It never waits for a fit."""
        return JSONResponse(await at_desk(desk.next_rows, request, body.n))

    @app.post("/api/v1/tell", response_model=bodies.Told, responses=_REFUSALS)
    async def tell(request: Request, body: bodies.Tell) -> Any:
        """Store answers: all or none, and once for each key."""
        answers = [(answer.id, answer.label) for answer in body.answers]
        return JSONResponse(await at_desk(desk.answer, request, body.key, answers, urgent=True))

    @app.post("/api/v1/skip", response_model=bodies.Told, responses=_REFUSALS)
    async def skip(request: Request, body: bodies.Skip) -> Any:
        """Skip a row."""
        return JSONResponse(await at_desk(desk.answer, request, body.key, [(body.id, None)], urgent=True))

    @app.post("/api/v1/undo", response_model=bodies.Undone, responses=_REFUSALS)
    async def undo(request: Request, body: bodies.Undo) -> Any:
        """Take back your latest answer or skip; the row is yours again."""
        return JSONResponse(await at_desk(desk.take_back, request, body.key, urgent=True))

    @app.get("/api/v1/image/{position}/{number}", responses=_REFUSALS, response_class=Response)
    async def image(request: Request, position: int, number: int) -> Response:
        """Return the image in a cell of a row that you were given."""
        if min(position, number) < 0:
            raise Refused(404, "There is no image here.")
        cell = await at_desk(desk.image_cell, request, position, number)
        loaded = await run_in_threadpool(load_image, desk.images, cell)
        if loaded is None:
            raise Refused(
                404, "There is no image here: no such file inside the folder of images, or not a raster image."
            )
        content, kind = loaded
        return Response(content, media_type=kind, headers={"cache-control": "private, max-age=3600"})


def _add_progress(app: FastAPI, desk: Desk, at_desk: Callable[..., Any]) -> None:
    @app.get("/api/v1/status", response_model=bodies.Status, responses=_REFUSALS)
    async def status(request: Request) -> Any:
        """How far the campaign is."""
        return JSONResponse(await at_desk(desk.progress, request))

    @app.get("/api/v1/rounds", response_model=bodies.Rounds, responses=_REFUSALS)
    async def rounds(request: Request) -> Any:
        """Return the error after each closed round, and what the stopping rule says."""
        return JSONResponse(await at_desk(desk.measured, request))


def _add_owner(app: FastAPI, desk: Desk, at_desk: Callable[..., Any]) -> None:
    @app.get("/api/v1/review", response_model=bodies.Review, responses=_REFUSALS)
    async def review(request: Request, all: bool = False, first: Annotated[int, Query(ge=0, le=10**9)] = 0) -> Any:
        """Rows on which people disagree; with `all` every answered row. For owners."""
        return JSONResponse(await at_desk(desk.answered, request, all, first))

    @app.post("/api/v1/review", response_model=bodies.Decided, responses=_REFUSALS)
    async def decide(request: Request, body: bodies.Decision) -> Any:
        """Decide a row, whatever others answered. For owners."""
        return JSONResponse(await at_desk(desk.settle, request, body.key, body.id, body.label))

    @app.get("/api/v1/history", response_model=bodies.History, responses=_REFUSALS)
    async def history(request: Request) -> Any:
        """Return the journal in words. For owners."""
        return JSONResponse(await at_desk(desk.entries, request))

    @app.get("/api/v1/export", responses=_REFUSALS, response_class=FileResponse)
    async def export(request: Request) -> FileResponse:
        """Return the model as a file for `observal.load_model`. For owners."""
        await at_desk(desk.check_owner, request)
        folder = tempfile.TemporaryDirectory(prefix="observal-")
        path = Path(folder.name) / "loans.model"
        await asyncio.wrap_future(desk.worker.export(str(path)))
        return FileResponse(path, filename=path.name, background=BackgroundTask(folder.cleanup))
