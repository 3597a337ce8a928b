"""Make the embedded sample: three tiny synthetic tasks in the CS224N file layout.

    python -m tools.make_embedded [OUT_DIR]   # default: multitask/data/embedded

Every sentence comes from the hand-written grammars below, none from a real data set. They are drawn
with fixed seeds, so each run writes the same bytes.

* ``ids-sst``: reviews of imaginary places and gadgets. The label is the opinion that counts,
  after negation, contrast, change and hearsay.
* ``quora``: pairs of questions about villagers, ferries and towers. A duplicate asks the same in
  other words (passive, synonym, converse, another question frame); most others swap the roles.
* ``sts``: pairs of statements from the same grammar, scored by the rules in ``SCORES``.
"""

from __future__ import annotations

import csv
import hashlib
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

SIZES = {"train": 900, "dev": 200, "test-student": 50}
DEFAULT_OUT = Path(__file__).parents[1] / "multitask" / "data" / "embedded"

# File stem and columns (after the unnamed index and the id) of each task; the last is the label.
TASKS = {
    "sst": ("ids-sst", ("sentence", "sentiment")),
    "quora": ("quora", ("sentence1", "sentence2", "is_duplicate")),
    "sts": ("sts", ("sentence1", "sentence2", "similarity")),
}

Row = tuple[str, ...]  # the sentence or sentences, then the label
Clause = tuple[str, str]  # the same clause as a statement and as a question
Fact = tuple[str, int, tuple[str, ...], str]  # family, relation, who takes part, a detail


def sentence(text: str, end: str = ".") -> str:
    """Write a clause as a sentence: a capital first letter and an end mark."""
    return text[0].upper() + text[1:] + end


# ---------------------------------------------------------------------------------------------
# Reviews
# ---------------------------------------------------------------------------------------------

ADJECTIVES = (  # by label, 0 to 4
    ("dreadful", "awful", "terrible", "horrible", "appalling", "atrocious"),
    ("poor", "dull", "weak", "shabby", "disappointing", "mediocre"),
    ("ordinary", "average", "middling", "so-so", "unremarkable", "passable"),
    ("good", "pleasant", "decent", "nice", "likeable", "enjoyable"),
    ("splendid", "superb", "wonderful", "magnificent", "marvellous", "brilliant"),
)
PLACES = (
    ("at the Copper Kettle café", ("soup", "tea", "cake", "service", "coffee")),
    ("on the night train to Quillmouth", ("heating", "dining car", "view", "bunk", "breakfast")),
    ("at the Bramblewick lantern festival", ("music", "parade", "puppet show", "cider", "bonfire")),
    ("at the Gull Point lighthouse museum", ("guide", "lamp room", "model ship", "gift shop")),
    ("on the Tin Sparrow pocket radio", ("battery", "screen", "handle", "sound", "manual")),
    ("aboard the paddle ferry Marigold", ("deck", "food", "captain", "orchestra", "cabin")),
    ("in the Moss Hill toy workshop", ("clockwork owl", "tour", "paint shop", "kite display")),
)

# {a} and {b} are aspects of the place, {p} and {q} adjectives. KEEP has the level of {q}; MIRROR
# turns it round (splendid <-> dreadful, good <-> poor).
KEEP = (
    "the {b} was {q}",
    "the {b} was {q} from start to finish",
    "everybody would call the {b} {q}",
    "we expected the {b} to be {q}, and we were right",
)
MIRROR = (
    "the {b} was anything but {q}",
    "the {b} was the very opposite of {q}",
    "nobody would call the {b} {q}",
    "we expected the {b} to be {q}, and we were wrong",
)
# Two opinions far apart, of which only {q} counts, wherever it stands.
CONTRAST = (
    "the {a} was {p}, but the {b} was {q}, and only the {b} counts",
    "the {b} was {q}, but the {a} was {p}, and only the {b} counts",
    "never mind the {p} {a}, because the {b} was {q}",
    "the {b} was {q}, so never mind the {p} {a}",
    "the {b} used to be {p} and is now {q}",
    "the {b} is now {q} and used to be {p}",
    'the owner calls the {b} "{p}", but every visitor finds it {q}',
    'every visitor finds the {b} {q}, but the owner calls it "{p}"',
)
# Two opposite opinions of the same weight: label 2.
EVEN = (
    "the {a} was {p}, but the {b} was {q}, and both count the same",
    "the {a} was as {p} as the {b} was {q}",
)


def review(rng: random.Random) -> Row:
    """Draw one review and its label, 0 (dreadful) to 4 (splendid)."""
    place, aspects = rng.choice(PLACES)
    first, second = rng.sample(aspects, 2)
    label = rng.randrange(5)
    kind = rng.choice((KEEP, CONTRAST, EVEN) if label == 2 else (KEEP, MIRROR, CONTRAST, CONTRAST))
    counts, other = label, rng.choice([n for n in range(5) if abs(n - label) >= 2])
    if kind is MIRROR:
        counts = 4 - label
    elif kind is EVEN:
        counts, other = rng.choice(((0, 4), (1, 3), (3, 1), (4, 0)))
    text = rng.choice(kind).format(
        a=first, b=second, p=rng.choice(ADJECTIVES[other]), q=rng.choice(ADJECTIVES[counts])
    )
    return sentence(rng.choice((text, f"{place}, {text}"))), str(label)


# ---------------------------------------------------------------------------------------------
# Facts, and ways to say them. Every way of one fact means the same.
# ---------------------------------------------------------------------------------------------

PEOPLE = (
    *("baker", "pilot", "postman", "gardener", "captain", "librarian"),
    *("tailor", "fiddler", "miller", "beekeeper"),
)
VILLAGES = ("Bramblewick", "Quillmouth", "Moss Hill", "Gull Point", "Thistledown", "Appleby Cross")
TOWERS = ("lighthouse", "clock tower", "windmill", "water tower", "chapel", "town hall")
GOODS = ("tin kite", "brass telescope", "pocket radio", "clockwork owl", "paper lantern")

DEEDS = (  # present and past of a verb and of its synonym
    ("help", "helped", "assist", "assisted"),
    ("praise", "praised", "applaud", "applauded"),
    ("phone", "phoned", "call", "called"),
    ("greet", "greeted", "welcome", "welcomed"),
    ("teach", "taught", "instruct", "instructed"),
    ("rescue", "rescued", "save", "saved"),
    ("chase", "chased", "pursue", "pursued"),
)
GIFTS = (("sell", "sold"), ("lend", "lent"), ("send", "sent"), ("hand", "handed"))
CARRIERS = ("ferry", "night train", "mail coach")
MEASURES = (("taller", "shorter"), ("older", "newer"), ("wider", "narrower"))

PAST = ("at the harvest fair", "during the ferry ride", "on Monday", "after lunch", "last winter")
HABIT = ("on Sundays", "in winter", "during the holidays", "in May", "on rainy days")
SOURCE = ("according to the map", "according to the mayor", "according to the guidebook")


def deed(relation: int, who: Sequence[str]) -> list[Clause]:
    """Say what one villager did to another: active or passive, verb or synonym."""
    a, b = who
    verb, past, verb2, past2 = DEEDS[relation]
    return [
        (f"the {a} {past} the {b}", f"did the {a} {verb} the {b}"),
        (f"the {b} was {past} by the {a}", f"was the {b} {past} by the {a}"),
        (f"the {a} {past2} the {b}", f"did the {a} {verb2} the {b}"),
        (f"the {b} was {past2} by the {a}", f"was the {b} {past2} by the {a}"),
    ]


def gift(relation: int, who: Sequence[str]) -> list[Clause]:
    """Say that a thing passed from one villager to another."""
    a, b, thing = who
    verb, past = GIFTS[relation]
    return [
        (f"the {a} {past} the {b} a {thing}", f"did the {a} {verb} the {b} a {thing}"),
        (f"the {b} was {past} a {thing} by the {a}", f"was the {b} {past} a {thing} by the {a}"),
        (f"the {a} {past} a {thing} to the {b}", f"did the {a} {verb} a {thing} to the {b}"),
    ]


def route(relation: int, who: Sequence[str]) -> list[Clause]:
    """Say between which villages something runs, and which way."""
    a, b = who
    it = CARRIERS[relation]
    return [
        (f"the {it} runs from {a} to {b}", f"does the {it} run from {a} to {b}"),
        (f"the {it} runs to {b} from {a}", f"does the {it} run to {b} from {a}"),
        (f"the {it} leaves {a} for {b}", f"does the {it} leave {a} for {b}"),
    ]


def measure(relation: int, who: Sequence[str]) -> list[Clause]:
    """Compare two buildings, from either side."""
    a, b = who
    more, less = MEASURES[relation]
    return [
        (f"the {a} is {more} than the {b}", f"is the {a} {more} than the {b}"),
        (f"the {b} is {less} than the {a}", f"is the {b} {less} than the {a}"),
    ]


# Per family: how to say it, the number of relations, who may take part, what else may be said.
Family = tuple[Callable[[int, Sequence[str]], list[Clause]], int, Sequence[str], Sequence[str]]
FAMILIES: dict[str, Family] = {
    "deed": (deed, len(DEEDS), PEOPLE, PAST),
    "gift": (gift, len(GIFTS), PEOPLE, PAST),
    "route": (route, len(CARRIERS), VILLAGES, HABIT),
    "measure": (measure, len(MEASURES), TOWERS, SOURCE),
}
FAMILY_DRAW = ("deed",) * 4 + ("gift",) * 3 + ("route",) * 2 + ("measure",)

# Question frames; those of one line ask the same. {s} is the statement, {q} the question and {d}
# the detail.
FRAMES = (
    ("{q} {d}?", "is it true that {s} {d}?", "am I right that {s} {d}?"),
    ("why {q} {d}?", "for what reason {q} {d}?", "what is the reason that {s} {d}?"),
    ("who says that {s} {d}?", "who told you that {s} {d}?"),
)
ORDERS = ("{s} {d}.", "{d}, {s}.")

# How the second sentence of a pair relates to the first, beyond its other wording.
SCORES = {
    "same": 5.0,  # the same fact
    "detail dropped": 4.4,  # one of the two does not say when, or who says so
    "detail changed": 3.6,  # on Monday / after lunch
    "someone else": 2.8,  # the baker helped ... / the tailor helped ...
    "opposite": 2.0,  # the roles are swapped
    "other relation": 1.4,  # helped / chased
    "unrelated": 0.0,  # nothing in common
}
QUESTION_DRAW = (
    *("same",) * 9,
    *("opposite",) * 8,
    *("other frame", "someone else", "unrelated"),
)
STATEMENT_DRAW = (
    *("same", "opposite") * 4,
    *("detail dropped", "detail changed", "someone else", "other relation", "unrelated") * 2,
)


def draw_fact(rng: random.Random) -> Fact:
    """Draw a fact."""
    family = rng.choice(FAMILY_DRAW)
    _, relations, pool, details = FAMILIES[family]
    who = rng.sample(pool, 2)
    if family == "gift":
        who.append(rng.choice(GOODS))
    return family, rng.randrange(relations), tuple(who), rng.choice(details)


def change(rng: random.Random, fact: Fact, how: str) -> Fact:
    """Change a fact in the way that ``how`` (a key of ``SCORES``) names."""
    family, relation, who, detail = fact
    _, relations, pool, details = FAMILIES[family]
    if how == "detail dropped":
        detail = ""
    elif how == "detail changed":
        detail = rng.choice([d for d in details if d != detail])
    elif how == "someone else":
        who = (rng.choice([p for p in pool if p not in who]), *who[1:])
    elif how == "opposite":
        who = (who[1], who[0], *who[2:])
    elif how == "other relation":
        relation = rng.choice([r for r in range(relations) if r != relation])
    elif how == "unrelated":
        while True:
            new = draw_fact(rng)
            if new[0] != family and new[3] != detail and not set(new[2]) & set(who):
                return new
    return family, relation, who, detail


def clauses(fact: Fact) -> list[Clause]:
    """List the ways to say a fact, without its detail."""
    family, relation, who, _ = fact
    return FAMILIES[family][0](relation, who)


def two_ways(rng: random.Random, fact: Fact, frames: Sequence[str]) -> list[tuple[int, str]]:
    """Draw two different wordings, each a way to say the fact and a frame.

    A pair of any kind has two different wordings, so the wording tells nothing about the label.
    """
    return rng.sample([(n, frame) for n in range(len(clauses(fact))) for frame in frames], 2)


def word(fact: Fact, way: tuple[int, str]) -> str:
    """Say a fact in the given wording."""
    ways = clauses(fact)
    statement, question = ways[way[0] % len(ways)]
    frame = way[1] if fact[3] else way[1].replace("{d}, ", "").replace(" {d}", "")
    return sentence(frame[:-1].format(s=statement, q=question, d=fact[3]), frame[-1])


def question_pair(rng: random.Random) -> Row:
    """Draw two questions and whether they are duplicates."""
    fact, frames, how = draw_fact(rng), rng.choice(FRAMES), rng.choice(QUESTION_DRAW)
    first, second = two_ways(rng, fact, frames)
    if how == "other frame":
        second = second[0], rng.choice(rng.choice([f for f in FRAMES if f is not frames]))
    label = "1.0" if how == "same" else "0.0"
    return word(fact, first), word(change(rng, fact, how), second), label


def statement_pair(rng: random.Random) -> Row:
    """Draw two statements and their similarity."""
    fact, how = draw_fact(rng), rng.choice(STATEMENT_DRAW)
    first, second = two_ways(rng, fact, ORDERS)
    pair = [word(fact, first), word(change(rng, fact, how), second)]
    rng.shuffle(pair)
    return pair[0], pair[1], f"{SCORES[how]:.1f}"


# ---------------------------------------------------------------------------------------------
# Splits and files
# ---------------------------------------------------------------------------------------------

DRAW: dict[str, Callable[[random.Random], Row]] = {
    "sst": review,
    "quora": question_pair,
    "sts": statement_pair,
}


def draw_rows(task: str, split: str, used: set[str]) -> list[Row]:
    """Draw the rows of a split, with no row twice and no sentence of ``used`` (earlier splits)."""
    rng = random.Random(f"embedded {task} {split}")
    rows: dict[tuple[str, ...], Row] = {}
    while len(rows) < SIZES[split]:
        row = DRAW[task](rng)
        texts = tuple(sorted(set(row[:-1])))
        if len(texts) == len(row) - 1 and not used.intersection(texts):
            rows.setdefault(texts, row)
    return list(rows.values())


def build() -> dict[tuple[str, str], list[Row]]:
    """Draw every split of every task."""
    data = {}
    for task in TASKS:
        used: set[str] = set()
        for split in SIZES:
            data[task, split] = draw_rows(task, split, used)
            used.update(text for row in data[task, split] for text in row[:-1])
    return data


def row_id(task: str, split: str, index: int) -> str:
    """Make up the id of a row: 25 hexadecimal digits, as in the CS224N files."""
    return hashlib.sha256(f"embedded {task} {split} {index}".encode()).hexdigest()[:25]


def main(out_dir: Path | str = DEFAULT_OUT) -> None:
    """Write the nine files to ``out_dir``."""
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    for (task, split), rows in build().items():
        stem, columns = TASKS[task]
        width = len(columns) - (split == "test-student")  # the test files have no label
        with (out / f"{stem}-{split}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(("", "id", *columns[:width]))
            for index, row in enumerate(rows):
                writer.writerow((index, row_id(task, split, index), *row[:width]))


if __name__ == "__main__":
    main(*sys.argv[1:2])
