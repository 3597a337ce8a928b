"""The Flask application: one form and one address for JSON, answered one request at a time.

The page runs no script, and its content security policy allows requests to itself only.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from multitask.inference.serve import responses
from multitask.inference.serve.responses import Served
from multitask.inference.serve.server import ADDRESS, import_flask
from multitask.reporting.html_page import fill, stream
from multitask.tasks.rows import ordinal
from multitask.utils.errors import UserError
from multitask.utils.limits import REPORT_BYTES, REQUEST_BYTES, TYPED_CHARACTERS, read_bounded
from multitask.utils.paths import inside

if TYPE_CHECKING:
    from flask import Flask

# these keep a browser from loading anything else
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'self'; frame-src 'self'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
FAILED = "Something failed here. The terminal where the page was started says what."
LOGGER = logging.getLogger(__name__)
NO_REPORT = "The run has no report yet: it is written when the run ends."


def make_app(served: Served) -> "Flask":
    """Make the application: ``/`` is the page, ``/predict`` takes JSON, ``/report`` the report."""
    flask = import_flask()
    from werkzeug.exceptions import HTTPException, SecurityError

    app: Flask = flask.Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = REQUEST_BYTES
    app.config["MAX_FORM_MEMORY_SIZE"] = REQUEST_BYTES
    app.config["TRUSTED_HOSTS"] = [ADDRESS, "localhost"]  # refuse requests for other host names

    def page(**values: Any) -> str:
        return fill(**contents(served, **values))

    @app.get("/")
    def start() -> str:
        return page()

    @app.post("/")
    def reply() -> Any:
        form = flask.request.form
        typed = [form.get(ordinal(number), "") for number in range(served.fields)]
        task = form.get("attention", "")
        filled = {"typed": [text[:TYPED_CHARACTERS] for text in typed], "task": task}
        try:
            parts = answered(served, typed, task)
        except UserError as error:
            return page(problem=str(error), **filled), 400
        return flask.Response(stream(**contents(served, **filled, **parts)))

    @app.post("/predict")
    def predict() -> Any:
        try:
            request = flask.request.get_json()  # before the lock: senders may be slow
            with served.busy:
                return {"predictions": responses.predictions(served, request)}
        except UserError as error:
            return {"error": str(error)}, 400
        except RecursionError:  # JSON of lists in lists
            return {"error": "the request is nested too deeply"}, 400

    @app.get("/report")
    def report() -> Any:
        try:
            return flask.Response(report_of(served), mimetype="text/html")
        except UserError as error:
            return page(problem=str(error)), 404

    @app.errorhandler(SecurityError)
    def foreign(error: SecurityError) -> Any:
        return flask.Response(f"Ask for {ADDRESS}.\n", 400, mimetype="text/plain")

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Any:
        if flask.request.path == "/predict":
            return {"error": error.description}, error.code
        texts = {404: "There is no such page here.", 413: "That is too much text for the page."}
        return page(problem=texts.get(error.code or 0, f"{error.name}.")), error.code

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Any:
        LOGGER.error("a request failed", exc_info=error)
        return {"error": FAILED} if flask.request.path == "/predict" else page(problem=FAILED), 500

    @app.after_request
    def guarded(response: Any) -> Any:
        response.headers.update(HEADERS)
        return response

    return app


def report_of(served: Served) -> bytes:
    """Read report.html. Raises UserError if it leads out of the run, is too large or no file."""
    file = served.run.files.html_page
    try:
        return read_bounded(inside(file, served.run.directory), REPORT_BYTES)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise UserError(NO_REPORT if missing else str(error)) from error


def answered(served: Served, typed: Sequence[str], task: str) -> dict[str, Any]:
    """Return the texts, and functions that make the parts of the page.

    The page is sent while it is made: first the form, then the answers, the pictures and the
    nearest texts. Raises UserError for texts or a task that cannot be answered.
    """
    texts = responses.read_texts(served, typed)
    choices = responses.attention_tasks(served)
    if task and task not in choices:
        raise UserError("There is no such task to draw the attention of.")
    return {
        "texts": texts,
        "answer": partial(tried, responses.answer, served, texts=texts),
        "pictures": partial(tried, responses.attention, served, task or choices[0], texts),
        "neighbours": partial(tried, responses.neighbours, served),
    }


def tried(
    make: Callable[..., Any], served: Served, *arguments: Any, **more: Any
) -> tuple[Any, str]:
    """Return what a function makes and an empty text, or None and why there is nothing.

    The beginning of the page is sent by then, so an exception must not end it. Nothing else is
    computed at that time; slow readers do not block others.
    """
    try:
        with served.busy:
            return make(served, *arguments, **more), ""
    except UserError as error:
        return None, str(error)
    except Exception as error:
        LOGGER.error("a part of a reply failed", exc_info=error)
        return None, FAILED


def contents(served: Served, **values: Any) -> dict[str, Any]:
    """Return the template of the page and its values; ``values`` are those that are not usual."""
    run = served.run
    return {
        "template": "serve.html.j2",
        "page": {
            "title": f"Try {run.directory.resolve().name}",
            "summary": "Type a text, see what this run makes of it. Nothing leaves this machine.",
            "sections": [],
        },
        "served": served,
        "tasks": [(task, responses.about(served, task)) for task in served.tasks],
        "choices": responses.attention_tasks(served),
        "examples": served.examples,
        "limit": TYPED_CHARACTERS,
        "has_report": run.files.html_page.is_file(),
        "names": [ordinal(number) for number in range(served.fields)],
        "typed": [""] * served.fields,
        "task": "",
        "problem": "",
        "texts": (),
        **values,
    }
