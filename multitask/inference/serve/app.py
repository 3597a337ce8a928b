"""The Flask application: one form, answered one request at a time.

The page runs no script, and its content security policy allows requests to itself only.
"""

from typing import TYPE_CHECKING, Any

from multitask.inference.serve import responses
from multitask.inference.serve.responses import Served
from multitask.inference.serve.server import ADDRESS, import_flask
from multitask.reporting.html_page import fill
from multitask.utils.errors import UserError
from multitask.utils.limits import REQUEST_BYTES, TYPED_CHARACTERS

if TYPE_CHECKING:
    from flask import Flask

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'self'; frame-src 'self'; frame-ancestors 'self'"
)
NO_REPORT = "The run has no report yet: it is written when the run ends."


def make_app(served: Served) -> "Flask":
    """Make the application: ``/`` is the page, ``/report`` the run's report."""
    flask = import_flask()
    from werkzeug.exceptions import HTTPException, SecurityError

    app: Flask = flask.Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = REQUEST_BYTES
    app.config["MAX_FORM_MEMORY_SIZE"] = REQUEST_BYTES
    app.config["TRUSTED_HOSTS"] = [ADDRESS, "localhost"]  # refuse requests for other host names
    report = served.run.files.html_page

    @app.get("/")
    def start() -> str:
        return page(served)

    @app.post("/")
    def reply() -> Any:
        form = flask.request.form
        first, second = form.get("first", ""), form.get("second", "")
        task = form.get("attention", "")
        with served.busy:
            return filled(served, first, second, task)

    @app.get("/report")
    def show_report() -> Any:
        if not report.is_file():
            return page(served, problem=NO_REPORT), 404
        return flask.Response(report.read_bytes(), mimetype="text/html")

    @app.errorhandler(SecurityError)
    def foreign(error: SecurityError) -> Any:
        return flask.Response(f"Ask for {ADDRESS}.\n", 400, mimetype="text/plain")

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Any:
        texts = {404: "There is no such page here.", 413: "That is too much text for the page."}
        return page(served, problem=texts.get(error.code or 0, f"{error.name}.")), error.code

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Any:
        app.logger.error("a request failed", exc_info=error)
        problem = "Something failed here. The terminal where the page was started says what."
        return page(served, problem=problem), 500

    @app.after_request
    def guard(response: Any) -> Any:
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    return app


def filled(served: Served, first: str, second: str, task: str) -> Any:
    """Write the page with answers to two typed texts; the second may be empty."""
    typed = {"first": first[:TYPED_CHARACTERS], "second": second[:TYPED_CHARACTERS], "task": task}
    try:
        texts = responses.read_texts(served, first, second)
        choices = responses.attention_tasks(served)
        if task and task not in choices:
            raise UserError("There is no such task to draw the attention of.")
    except UserError as error:
        return page(served, problem=str(error), **typed), 400
    more: dict[str, object] = {"texts": texts, "answers": responses.answers(served, texts)}
    try:
        more["pictures"] = responses.attention(served, task or choices[0], texts)
    except UserError as error:
        more["no_picture"] = str(error)
    try:
        more["nearest"] = [responses.neighbours(served, text) for text in texts]
    except UserError as error:
        more["no_nearest"] = str(error)
    return page(served, **typed, **more)


def page(served: Served, **values: Any) -> str:
    """Write the page as HTML; ``values`` fill the fields that are empty at first."""
    run = served.run
    texts = ("first", "second", "task", "no_picture", "no_nearest", "problem")
    usual: dict[str, object] = dict.fromkeys(texts, "")
    usual |= dict.fromkeys(("texts", "answers", "pictures", "nearest"), ())
    return fill(
        "serve.html.j2",
        **{**usual, **values},
        page={
            "title": f"Try {run.directory.resolve().name}",
            "summary": "Type a text, see what this run makes of it. Nothing leaves this machine.",
            "sections": [],
        },
        served=served,
        tasks=[(task, responses.about(served, task)) for task in served.tasks],
        choices=responses.attention_tasks(served),
        limit=TYPED_CHARACTERS,
        has_report=run.files.html_page.is_file(),
    )
