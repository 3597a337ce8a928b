"""Small made data with a tag a word, and with questions, and the configs of docs/task-types.md."""

import json
import random
from pathlib import Path

# an entity is one of the first two words, or the third and the fourth together
KINDS = {
    "PER": "man woman good child".split(),
    "ANIMAL": "cat dog big bird".split(),
    "PLACE": "house tree red river".split(),
}
ASKS = {"PER": "who is there ?", "ANIMAL": "what is there ?", "PLACE": "why there ?"}
FILLERS = "sees eats likes finds and never always . , today near".split()
TAGS = ["O", *(f"{start}-{kind}" for kind in KINDS for start in "BI")]


def sentence(rng: random.Random) -> tuple[list[str], list[str]]:
    """Words and tags: one entity of each kind, some of two words, between others."""
    words, tags = [], []
    for kind in rng.sample(list(KINDS), 3):
        for _ in range(rng.randint(1, 2)):
            words.append(rng.choice(FILLERS))
            tags.append("O")
        one, other, *both = KINDS[kind]
        entity = rng.choice([[one], [other], both])
        words += entity
        tags += [f"B-{kind}", *[f"I-{kind}"] * (len(entity) - 1)]
    return words, tags


def write_lines(file: Path, records: list[dict]) -> Path:
    """A JSON-lines file."""
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def tagged(size: int, seed: int) -> list[dict]:
    """Rows of a tagging task."""
    rng = random.Random(seed)
    made = (sentence(rng) for _ in range(size))
    return [{"tokens": words, "ner_tags": tags} for words, tags in made]


def asked(size: int, seed: int) -> list[dict]:
    """Rows of a question-answering task: the entity of the kind that is asked for."""
    rng = random.Random(seed)
    rows = []
    for number in range(size):
        words, tags = sentence(rng)
        kind = rng.choice(list(KINDS))
        first = tags.index(f"B-{kind}")
        last = first + (tags[first + 1 : first + 2] == [f"I-{kind}"])
        text = " ".join(words[first : last + 1])
        start = len(" ".join(words[:first])) + (first > 0)
        answers = {"text": [text], "answer_start": [start]}
        row = {"id": f"q{number}", "question": ASKS[kind], "context": " ".join(words)}
        rows.append({**row, "answers": answers})
    return rows


def without_answers(rows: list[dict], every: int = 3) -> list[dict]:
    """The rows; each ``every``-th asks for what is not in its context, and has no answer."""
    none = {"text": [], "answer_start": []}
    return [
        {**row, "question": "never ?", "answers": none} if number % every == 0 else row
        for number, row in enumerate(rows)
    ]


def nested(rows: list[dict]) -> dict:
    """Rows of a question-answering task as the nested file of SQuAD: one paragraph per row."""
    paragraphs = []
    for row in rows:
        asked_for = {key: row[key] for key in ("id", "question")}
        if "answers" in row:
            pairs = zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
            answers = [{"text": text, "answer_start": start} for text, start in pairs]
            asked_for |= {"answers": answers, "is_impossible": not answers}
        paragraphs.append({"context": row["context"], "qas": [asked_for]})
    half = len(paragraphs) // 2
    articles = paragraphs[:half], paragraphs[half:]
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": part} for part in articles]}


def write_token_files(directory: Path, train: int = 160, dev: int = 40) -> Path:
    """`ner-*.jsonl` and `qa-*.jsonl`: train, dev, and test without labels."""
    for seed, (split, size) in enumerate((("train", train), ("dev", dev), ("test", 6))):
        for name, rows, label in (
            ("ner", tagged(size, seed), "ner_tags"),
            ("qa", asked(size, seed + 10), "answers"),
        ):
            if split == "test":
                rows = [{k: v for k, v in row.items() if k != label} for row in rows]
            write_lines(directory / f"{name}-{split}.jsonl", rows)
    return directory


def token_config(
    directory: Path, encoder: Path, files: Path, tasks: tuple[str, ...] = ("ner", "qa")
) -> Path:
    """A config of both kinds of task on a tiny encoder, which learns them in seconds."""
    text = f"""
data_dir: {files}
output_dir: {directory / "run"}
encoder: {{name: {encoder}}}
training: {{epochs: 1, lr: 3.0e-3, head_lr: 1.0e-2, precision: fp32}}
tasks:
"""
    every = {
        "ner": """
  ner:
    data:
      train: ner-train.jsonl
      dev: ner-dev.jsonl
      test: ner-test.jsonl
      text: tokens
      label: ner_tags
    max_length: 48
    pooling: tokens
    head: token_classification
""",
        "qa": """
  qa:
    data:
      train: qa-train.jsonl
      dev: qa-dev.jsonl
      test: qa-test.jsonl
      text: question
      text2: context
      label: answers
      id: id
    input: cross
    max_length: 48
    pooling: tokens
    head: {name: span, max_answer_tokens: 10}
""",
    }
    file = directory / "tokens.yaml"
    file.write_text(text + "".join(every[task] for task in tasks))
    return file
