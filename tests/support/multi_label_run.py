"""Small made data with several classes per row."""

import random

MARKS = {"animal": "cat", "size": "big", "place": "house"}
FILLERS = "sees eats likes finds and never always today near".split()


def labelled(size: int, seed: int) -> list[dict]:
    """Rows whose classes are those of the marks in the text, in any order; some have none."""
    rng = random.Random(seed)
    rows = []
    for _ in range(size):
        classes = [name for name in MARKS if rng.random() < 0.4]
        words = [MARKS[name] for name in classes] + rng.choices(FILLERS, k=4)
        rng.shuffle(words)
        rows.append({"text": " ".join(words), "classes": classes})
    return rows
