"""Answer a request: the predictions of a loaded run for the texts of a row."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from multitask.data.inputs.base import Input, input_of
from multitask.inference.analysis.attention_weights import cls_attention
from multitask.inference.embeddings import Vectors, run_vectors
from multitask.inference.load_run import TrainedRun, load
from multitask.inference.search.text_index import TextIndex, check_origin, open_index
from multitask.inference.similarity import cosines
from multitask.reporting.figures.maps import draw_mean
from multitask.reporting.figures.style import save_figure
from multitask.reporting.table_formats import shortened
from multitask.store.run_directory import RunDirectory
from multitask.tasks.base import Answer, NoLabels, Record
from multitask.tasks.rows import ordinal
from multitask.utils.errors import UserError
from multitask.utils.limits import JSON_BYTES, TYPED_CHARACTERS
from multitask.utils.paths import inside

# characters of an indexed text on the page
MAX_SHOWN = 500
# number of classes shown, the most probable first
MOST_CLASSES = 10
NEIGHBOURS = 10
# rows of a prediction file in which an example is looked for
FIRST_ROWS = 1000


@dataclass(frozen=True)
class Served:
    """A loaded run, for the page.

    Attributes:
        run: the loaded run.
        tasks: the tasks that the page shows.
        index: a search index, if any.
        vectors: encodes queries for that index.
        examples: inputs for the form; see ``examples``.
        busy: locked while a request is answered.
    """

    run: TrainedRun
    tasks: list[str]
    index: TextIndex | None = None
    vectors: Vectors | None = None
    examples: Sequence[tuple[str, ...]] = ()
    busy: Lock = field(default_factory=Lock)

    @property
    def fields(self) -> int:
        """The number of texts to type: those of a row, and two for a cosine."""
        return max(max(self.needs(task), 2 * self.compares(task)) for task in self.tasks)

    @property
    def fewest(self) -> int:
        """The fewest texts that the page can answer for."""
        return 1 if self.vectors is not None else min(map(self.needs, self.tasks))

    def compares(self, task: str) -> bool:
        """Return True if a task predicts nothing: its vectors of two texts are compared."""
        return isinstance(self.run.readers[task].task_type, NoLabels)

    def needs(self, task: str) -> int:
        """Return the number of texts that a task needs."""
        return 1 if self.compares(task) else self.input(task).texts

    def input(self, task: str) -> Input:
        """Return the input of a task."""
        return input_of(self.run.config.tasks[task])


class Result(Answer):
    """An answer for the page; ``of`` names the text it is about, if there are several."""

    of: str


def open_run(run_dir: Path, index_dir: Path | None) -> Served:
    """Load a run on the CPU (one text needs no GPU), and an index that was made with it.

    Raises UserError if one is missing or damaged or has a link that leaves it, they do not match,
    or no task can be shown.
    """
    files = RunDirectory(run_dir)
    read = (files.config, files.best, files.encoder, files.weights, files.predictions)
    for path in (each for top in read for each in (top, *top.glob("**/*"))):
        inside(path, run_dir)
    run = load(run_dir, ["device=cpu"])
    tasks = []
    for task, entry in run.config.tasks.items():
        scores_again = entry.only_scored and entry.share_head is not None
        silent = isinstance(run.readers[task].task_type, NoLabels) and not entry.gives_vectors
        tasks += [] if scores_again or silent else [task]
    if not tasks:
        raise UserError(f"{run_dir}: no task of the run says anything about a text")
    for task in tasks:
        run.encoder(task)  # fail now, not in the page, if weights are missing
    inputs = examples(Served(run, tasks))
    if index_dir is None:
        return Served(run, tasks, examples=inputs)
    index = open_index(index_dir)
    origin = index.facts.origin
    vectors = run_vectors(
        run, str(run_dir), task=origin.task, pooling=origin.pooling, max_length=origin.max_length
    ).cut(origin.dim)
    check_origin(index_dir, index.facts, vectors)
    return Served(run, tasks, index, vectors, inputs)


def examples(served: Served) -> list[tuple[str, ...]]:
    """Return inputs for the form, from the run's dev rows: one per number of texts of a row.

    There are fewer if the run has no saved dev predictions, or damaged ones.
    """
    found: dict[int, tuple[str, ...]] = {}
    damaged = (OSError, UserError, ValueError, KeyError, TypeError, RecursionError)
    for task in served.tasks:
        needs, form = served.needs(task), served.input(task)
        with suppress(*damaged), served.run.files.predictions_of(task, "dev").open("rb") as lines:
            for line in islice(iter(partial(lines.readline, JSON_BYTES), b""), FIRST_ROWS):
                texts = form.typed(json.loads(line)["texts"])[:needs]
                if texts[0].strip() and max(map(len, texts)) <= TYPED_CHARACTERS:
                    found.setdefault(needs, (*texts, *[""] * (served.fields - needs)))
                    break
    return list(found.values())


def predictions(served: Served, request: Any) -> list[Record]:
    """Predict what a JSON request asks for: ``{"task": "sst", "texts": [...]}``, as in Python.

    Raises UserError for another form, a text that is too long, and what ``predict`` refuses.
    """
    keys = {*request} if isinstance(request, dict) else set()
    if keys != {"task", "texts"} or not isinstance(request["texts"], list):
        form = '{"task": "NAME", "texts": ["...", ...]}, with a list for a row of several texts'
        raise UserError(f"expected {form}")
    if request["task"] not in served.tasks:
        raise UserError(f"task: expected one of {', '.join(served.tasks)}")
    rows = [tuple(text) if isinstance(text, list) else text for text in request["texts"]]
    for text in (text for row in rows for text in (row if isinstance(row, tuple) else [row])):
        if isinstance(text, str) and len(text) > TYPED_CHARACTERS:
            message = f"a text has {len(text):,} characters, more than {TYPED_CHARACTERS:,}"
            raise UserError(f"texts: {message}: shorten it")
    return served.run.predict(request["task"], rows)


def read_texts(served: Served, typed: Sequence[str]) -> list[str]:
    """Return the typed texts up to the last one. Raises UserError for empty and too long texts.

    A browser ends lines with CR LF, which becomes LF.
    """
    texts = [text.replace("\r\n", "\n") for text in typed][: served.fields]
    while texts and not texts[-1].strip():
        texts.pop()
    if not texts:
        raise UserError("There is no text yet.")
    for number, text in enumerate(texts):
        if not text.strip():
            raise UserError(f"The {ordinal(number)} text is empty.")
        if len(text) > TYPED_CHARACTERS:
            raise UserError(
                f"The {ordinal(number)} text has {len(text):,} characters; the page takes "
                f"{TYPED_CHARACTERS:,}: shorten it."
            )
    if len(texts) < served.fewest:
        needs = f"every task of this run reads at least {served.fewest}"
        raise UserError(f"The {ordinal(len(texts))} text is empty, and {needs}.")
    return texts


def about(served: Served, task: str) -> str:
    """Say what a task reads and predicts, such as ``one text → 5 classes``."""
    reader = served.run.readers[task]
    names, low, high = " or ".join(reader.names), reader.low, reader.high
    gives = reader.task_type.gives.format(count=len(reader.names), names=names, low=low, high=high)
    read = "one text or two" if served.compares(task) else served.input(task).reads
    return f"{read} → {gives}"


def answer(served: Served, task: str, texts: Sequence[str]) -> list[Result]:
    """Return a task's answers. Raises UserError if the task needs another text."""
    needs = served.needs(task)
    if len(texts) < needs:
        raise UserError(f"Needs a {ordinal(len(texts))} text.")
    if served.compares(task):
        return [_compared(served, task, texts[:2])]
    if needs > 1:
        return [_predicted(served, task, texts[:needs], "")]
    names = [f"{ordinal(n).capitalize()} text" for n in range(len(texts))]
    pairs = zip(texts, names if len(texts) > 1 else [""], strict=True)
    return [_predicted(served, task, [text], name) for text, name in pairs]


def _predicted(served: Served, task: str, texts: Sequence[str], of: str) -> Result:
    """Predict the typed texts of one row."""
    reader, row = served.run.readers[task], served.input(task).row_of_typed(texts)
    (record,) = served.run.predict(task, [row[0] if len(row) == 1 else row])
    words = reader.task_type.answer(record, reader)
    notes = [*cut(served, task, row), *words.get("notes", ())]
    shares = words.get("shares", ())
    if len(shares) > MOST_CLASSES:
        notes.append(f"The {MOST_CLASSES} likeliest of {len(shares)} classes.")
        shares = sorted(shares, key=lambda share: -share[1])[:MOST_CLASSES]
    return {**words, "of": of, "shares": shares, "notes": notes}


def _compared(served: Served, task: str, texts: Sequence[str]) -> Result:
    """Return the cosine of two texts' vectors. Raises UserError if there is only one text."""
    vectors = served.run.encode(texts, task)
    if len(texts) < 2:
        width = vectors.shape[1]
        raise UserError(f"A vector of {width} numbers; with a second text, the cosine of the two.")
    cosine = float(cosines(vectors[:1], vectors[1:])[0])
    notes = ["Cosine of the two vectors.", *cut(served, task, texts)]
    words = f"{cosine:.3f}"
    return Result(of="", prediction=words, number=cosine, low=-1.0, high=1.0, notes=notes)


def cut(served: Served, task: str, texts: Sequence[str]) -> list[str]:
    """Return a note if a task reads only the beginning of its texts."""
    entry = served.run.config.tasks[task]
    rows = served.input(task).sequences(texts)
    if entry.stride is not None or not served.run.tokens(task, rows).truncated.any():
        return []
    return [f"Cut at {entry.max_length} tokens: the rest was not read."]


def attention_tasks(served: Served) -> list[str]:
    """Return the first task of each combination of weights, adapter and input."""
    run = served.run
    first_tasks: dict[tuple[int, str | None, bool], str] = {}
    for task in served.tasks:
        adapter = run.model.owners_of(task)[-1] if run.model.adapter(task) is not None else None
        first_tasks.setdefault((run.steps[task], adapter, served.input(task).joins), task)
    return list(first_tasks.values())


def attention(served: Served, task: str, texts: Sequence[str]) -> list[tuple[bytes, str, str]]:
    """Draw what [CLS] attends to in each text, or in those that the task reads together.

    Returns pictures, each with its alternative text and a remark. Raises UserError if the encoder
    does not give its weights, a text is too long or missing.
    """
    form = served.input(task)
    if form.joins:
        if len(texts) < form.texts:
            missing = ordinal(len(texts))
            raise UserError(f"Task {task} reads its texts together: type a {missing} one.")
        texts = texts[: form.texts]
    encoder, adapter = served.run.encoder(task)
    pictures = []
    for read in form.sequences(form.row_of_typed(texts)):
        weights = cls_attention(encoder.eval(), served.run.tokenizer, read, adapter)
        png = BytesIO()
        save_figure(draw_mean(weights, f"{served.run.directory.name}, task {task}"), png)
        shown = " and ".join(f"“{shortened(text, 80)}”" for text in read)
        note = "The picture shows the complete text." if cut(served, task, read) else ""
        pictures.append((png.getvalue(), f"What [CLS] attends to in {shown}", note))
    return pictures


def neighbours(served: Served, text: str) -> list[tuple[float, int, str]]:
    """Find the nearest texts of the index: their cosines, lines and beginnings, nearest first."""
    index, vectors = served.index, served.vectors
    if index is None or vectors is None:
        return []
    model = vectors.scorer.model
    usual, model.autocast = model.autocast, None  # fp32, as in `search`
    try:
        query = vectors.encode([text])
    finally:
        model.autocast = usual
    scores, places = index.search(query, NEIGHBOURS)
    return [
        (float(score), index.lines[place], shortened(index.texts[place], MAX_SHOWN))
        for score, place in zip(scores[0], places[0], strict=True)
        if place >= 0
    ]
