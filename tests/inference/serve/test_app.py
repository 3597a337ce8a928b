"""The page without a browser: what it shows, what it refuses, and that it asks for nothing."""

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multitask import load
from multitask.inference.serve import responses
from multitask.inference.serve.responses import open_run
from multitask.utils.errors import UserError
from multitask.utils.limits import REPORT_BYTES, REQUEST_BYTES
from tests.inference.serve.conftest import SCRIPT
from tests.support.html_page import ADDRESSES, Parsed, page_text

pytest.importorskip("flask", reason="flask is not installed (dev requirement)")
from multitask.inference.serve.app import make_app

TEXT, OTHER = "a good film .", "the dog runs"
TAGS = set(
    "html head meta link title style body a header h1 h2 h3 h4 p nav ul ol li main section svg "
    "line circle span div img details summary form label textarea select option button blockquote "
    "iframe input code".split()
)


@pytest.fixture
def client(served):
    return make_app(served).test_client()


def post(client, first="", second="", **more):
    return client.post("/", data={"first": first, "second": second, **more})


def check(reply) -> str:
    """The page's text; a sound page that asks for nothing but the report."""
    text = reply.get_data(as_text=True)
    page = Parsed(text)
    assert {tag for tag, _ in page.elements} <= TAGS
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ADDRESSES & {*attributes}:
            address = attributes[name]
            inside = address[0] == "#" and address[1:] in ids
            assert inside or address.startswith("data:") or address == "/#scores" or (
                address == "/report" and tag in ("a", "iframe")
            ), (tag, address)  # fmt: skip
    assert "url(" not in text and "@import" not in text
    (policy,) = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
    for rule in (policy, reply.headers["Content-Security-Policy"]):
        assert rule.startswith("default-src 'none'; img-src data:; ") and "script" not in rule
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert "Traceback" not in text and 'File "' not in text
    return page_text(text)


def test_the_first_page_says_what_the_tasks_take(client):
    reply = client.get("/")
    text = check(reply)
    assert reply.status_code == 200
    for words in ("Try run", "sst one text → 5 classes", "Up to 2,000 characters per text."):
        assert words in text
    page = Parsed(reply.get_data(as_text=True))
    first, second = page.all("textarea")
    assert (first["maxlength"], second["maxlength"]) == ("2000", "2000")
    assert "required" in first and "required" not in second
    assert not page.all("select") and not page.all("img")
    assert "Nearest" not in text


def test_a_pair_has_scores_and_pictures(client, tiny_run):
    reply = post(client, TEXT, OTHER)
    text = check(reply)
    run = load(tiny_run)
    (sst,) = run.predict("sst", [TEXT])
    names = run.readers["sst"].names
    expected = [f"{n} {100 * p:.1f} %" for n, p in zip(names, sst["scores"], strict=True)]
    assert f"First text {sst['name']} {' '.join(expected)} Second text" in text
    (qqp,) = run.predict("qqp", [(TEXT, OTHER)])
    assert f"paraphrase {100 * qqp['scores'][1]:.1f} %" in text
    (sts,) = run.predict("sts", [(TEXT, OTHER)])
    assert f"{sts['prediction']:.3f} 0 5" in text
    images = Parsed(reply.get_data(as_text=True)).all("img")
    assert [image["alt"] for image in images] == [
        f"What [CLS] attends to in “{words}”" for words in (TEXT, OTHER)
    ]
    assert all(int(image["width"]) > 300 for image in images)


def test_bad_input_is_a_line_in_the_page(client):
    reply = post(client, "  ", "a")
    assert reply.status_code == 400
    assert "The first text is empty." in check(reply)
    assert Parsed(reply.get_data(as_text=True)).all("p")[1]["role"] == "alert"


def test_an_unknown_task_and_unknown_fields_are_refused_or_ignored(client):
    reply = post(client, TEXT, attention="../../etc/passwd")
    assert reply.status_code == 400 and "There is no such task" in check(reply)
    assert post(client, TEXT, file="/etc/passwd").status_code == 200
    assert "There is no text yet." in check(client.post("/", data={"third": "x"}))


@pytest.mark.parametrize("typed", [SCRIPT, "../../etc/passwd", "file:///etc/passwd", "$(id)"])
def test_what_is_typed_is_text_and_nothing_else(typed, client):
    reply = post(client, typed, typed)
    shown = check(reply)
    assert reply.status_code == 200 and "root:" not in shown
    assert shown.count(" ".join(typed.split())) >= 4  # typed twice, read twice
    text = reply.get_data(as_text=True)
    assert "<script" not in text
    assert len(Parsed(text).all("img")) == 2


@pytest.mark.slow
@given(first=st.text(max_size=60), second=st.text(max_size=60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_gives_a_sound_page(first, second, client, monkeypatch):
    monkeypatch.setattr(responses, "attention", lambda *_: [])  # slow, and tested elsewhere
    reply = post(client, first, second)
    check(reply)
    typed = first.encode(errors="replace").decode()  # a browser sends no half characters either
    assert reply.status_code == (200 if typed.strip() else 400)


def test_line_ends_stay_in_the_form(client):
    reply = post(client, "\r\n a\r\nb")
    assert ">\n\r\n a\r\nb</textarea>" in reply.get_data(as_text=True)


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/x", "/report/../x", "/x"]
)
def test_no_other_path_leads_anywhere(path, client):
    reply = client.get(path)
    assert reply.status_code == 404
    assert "There is no such page here." in check(reply)


def test_other_methods_hosts_and_sizes_are_refused(client):
    assert client.put("/").status_code == 405
    reply = client.get("/", headers={"Host": "evil.example"})
    assert (reply.status_code, reply.text) == (400, "Ask for 127.0.0.1.\n")
    assert client.get("/", headers={"Host": "127.0.0.1:8765"}).status_code == 200
    reply = post(client, "a" * (REQUEST_BYTES + 1))
    assert reply.status_code == 413 and "too much text" in check(reply)
    most = "\U0001f600" * 2000  # four bytes each, as the browser sends them
    assert post(client, most, most).status_code == 200


def test_the_report_is_shown_where_there_is_one(client, served, tiny_run, tmp_path, monkeypatch):
    reply = client.get("/report")
    assert reply.data == (tiny_run / "report.html").read_bytes()
    assert "Content-Security-Policy" in reply.headers
    monkeypatch.setattr(served.run, "directory", tmp_path)
    client = make_app(served).test_client()
    assert "The run has no report yet" in check(client.get("/"))
    reply = client.get("/report")
    assert reply.status_code == 404 and "The run has no report yet" in check(reply)


def make_report(kind: str, report: Path) -> None:
    """Put something at the report's name that is no report, or not the run's."""
    secret = report.parent.parent / "secret.html"
    secret.write_text("SECRET")
    places = {"file": secret, "directory": secret.parent, "circle": report, "broken": "../gone"}
    if kind == "large":
        with report.open("wb") as large:
            large.truncate(REPORT_BYTES + 1)
    else:
        report.symlink_to(places[kind])


@pytest.mark.parametrize("kind", ["file", "directory", "circle", "broken", "large"])
def test_a_report_that_is_not_the_runs_is_not_sent(kind, served, tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(served.run, "directory", tmp_path / "run")
    client = make_app(served).test_client()
    make_report(kind, tmp_path / "run" / "report.html")
    check(client.get("/"))
    for reply in (client.get("/report"), client.head("/report")):
        assert reply.status_code == 404 and b"SECRET" not in reply.data
    assert "report.html" in check(client.get("/report"))


def test_a_report_behind_a_link_inside_the_run_is_sent(served, tmp_path, monkeypatch):
    run = tmp_path / "run"
    (run / "figures").mkdir(parents=True)
    (run / "figures" / "page.html").write_text("mine")
    (run / "report.html").symlink_to("figures/page.html")
    (tmp_path / "link").symlink_to(run)
    monkeypatch.setattr(served.run, "directory", tmp_path / "link")
    assert make_app(served).test_client().get("/report").data == b"mine"


@pytest.mark.parametrize(
    "name", ["config.yaml", "best.json", "encoder", "weights", "predictions/sst.dev.jsonl"]
)
def test_a_run_with_a_link_that_leaves_it_is_refused(name, tiny_run, tmp_path):
    run = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.move(run / name, tmp_path / "secret")
    (run / name).symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match=re.escape(str(run / name))):
        open_run(run, None)


def test_code_in_a_message_is_code(client, monkeypatch):
    def refuse(*_, **__):
        raise UserError("set `a.b: <x>`, not ` or ``c``")

    for name in ("answer", "attention", "read_texts"):
        monkeypatch.setattr(responses, name, refuse)
        reply = post(client, TEXT, OTHER)
        check(reply)
        assert "set <code>a.b: &lt;x&gt;</code>, not ` or ``c``" in reply.text


def test_a_failure_is_a_sentence_in_the_page_and_a_traceback_in_the_terminal(
    client, monkeypatch, caplog
):
    def fail(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(responses, "answer", fail)
    reply = post(client, TEXT)
    assert check(reply).count("Something failed here.") == 3 and "secret" not in reply.text
    assert "secret" in caplog.text and len(Parsed(reply.text).all("img")) == 1


def test_the_answers_are_sent_before_the_pictures_are_drawn(served, monkeypatch):
    drawn, usual = [], responses.attention
    monkeypatch.setattr(responses, "attention", lambda *a: drawn.append(a) or usual(*a))
    app = make_app(served)
    with app.test_request_context("/", method="POST", data={"first": TEXT, "second": OTHER}):
        parts = iter(app.dispatch_request().response)
    sent = ""
    while "Working" not in sent:
        sent += next(parts)
    assert "Try it" in sent and 'class="verdict"' not in sent  # the form, and a word that we work
    while sent.count('class="verdict"') < 4:  # two texts of sst, a pair of qqp and of sts
        sent += next(parts)
    assert not drawn and "<img" not in sent
    sent += "".join(parts)
    assert drawn and sent.count("<img") == 2


def test_a_reader_who_stops_holds_nobody_up(served):
    app = make_app(served)
    with app.test_request_context("/", method="POST", data={"first": TEXT}):
        parts = iter(app.dispatch_request().response)
    while 'class="verdict"' not in next(parts):
        pass
    assert not served.busy.locked()
    assert post(app.test_client(), TEXT).status_code == 200


def test_examples_come_from_the_runs_dev_rows(client, served, monkeypatch, tmp_path):
    (first, second), (one, two) = responses.examples(served)
    dev = served.run.files.load_predictions("sst", "dev")
    assert (first, second) == (dev[0]["texts"][0], "")
    assert [one, two] == served.run.files.load_predictions("qqp", "dev")[0]["texts"]
    page = Parsed(client.get("/").text)
    hidden = [field["value"] for field in page.all("input")]
    assert hidden == [first, "", one, two]
    reply = post(client, one, two)
    assert check(reply) and reply.status_code == 200
    broken = tmp_path / "sst.dev.jsonl"
    broken.write_text('{"texts": ')
    monkeypatch.setattr(type(served.run.files), "predictions_of", lambda *_: broken)
    assert responses.examples(served) == []


def test_json_has_what_python_gives(client, served):
    for task, texts in (("sst", [TEXT, OTHER]), ("qqp", [(TEXT, OTHER)])):
        reply = client.post("/predict", json={"task": task, "texts": texts})
        assert reply.status_code == 200
        assert reply.json == {"predictions": served.run.predict(task, texts)}


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ({"json": {"task": "no", "texts": []}}, 400, "sst, qqp, sts"),
        ({"json": {"task": ["sst"], "texts": []}}, 400, "sst, qqp, sts"),
        ({"json": {"texts": [TEXT]}}, 400, 'expected {"task"'),
        ({"json": [1]}, 400, 'expected {"task"'),
        ({"json": {"task": "sst", "texts": TEXT}}, 400, 'expected {"task"'),
        ({"json": {"task": "sst", "texts": [None]}}, 400, "task sst"),
        ({"json": {"task": "qqp", "texts": [TEXT]}}, 400, "task qqp"),
        ({"json": {"task": "sst", "texts": ["a" * 2001]}}, 400, "2,001 characters"),
        ({"data": {"task": "sst"}}, 415, "application/json"),
        ({"data": "{", "content_type": "application/json"}, 400, ""),
        ({"data": "[" * 40000, "content_type": "application/json"}, 400, ""),
        ({"data": "a" * (REQUEST_BYTES + 1), "content_type": "application/json"}, 413, ""),
    ],
)
def test_a_bad_json_request_is_answered_in_json(request_, code, message, client):
    reply = client.post("/predict", **request_)
    assert (reply.status_code, [*reply.json]) == (code, ["error"])
    assert message in reply.json["error"]
    assert client.get("/predict").status_code == 405


def test_a_failure_and_another_host_are_answered_in_json(client, monkeypatch):
    def fail(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr(responses, "predictions", fail)
    reply = client.post("/predict", json={})
    assert reply.status_code == 500 and "Something failed" in reply.json["error"]
    assert client.post("/predict", json={}, headers={"Host": "evil.example"}).status_code == 400


def test_one_text_is_answered_at_a_time(client, served, monkeypatch):
    held = []
    for name in ("answer", "attention", "neighbours", "predictions"):
        monkeypatch.setattr(responses, name, lambda *_, **__: held.append(served.busy.locked()))
    assert post(client, TEXT).get_data()  # the answers are computed while it is read
    client.post("/predict", json={"task": "sst", "texts": [TEXT]})
    assert len(held) == 5 and all(held) and not served.busy.locked()


def test_neighbours_stand_in_the_page(tiny_run, index):
    indexed = open_run(tiny_run, index)
    reply = post(make_app(indexed).test_client(), TEXT, OTHER)
    text = check(reply)
    assert "Nearest texts" in text and "To the second text" in text
    for cosine, line, near in responses.neighbours(indexed, TEXT):
        assert f"{cosine:.3f} {' '.join(near.split())} line {line}" in text
