"""Pairs for next-sentence prediction from running text (Devlin et al. 2019, section 3.1)."""

import random
from itertools import pairwise
from pathlib import Path

from multitask.utils.errors import UserError

SEED = 0  # not the run's: all runs see the same pairs


def read_documents(
    text: str, file: Path, first: str, second: str, label: str
) -> dict[str, list[str]]:
    """Return columns of pairs: a sentence with the next one (label 1), or a random one (0).

    ``text`` has one sentence per line and blank lines between documents. Every sentence except the
    last of a document starts one pair. Label 1 or 0 is drawn with equal probability; a random
    sentence comes from another document. Raises UserError if there are fewer than two documents, or
    no document has two sentences.
    """
    documents: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            documents[-1].append(line.strip())
        else:
            documents.append([])
    documents = [document for document in documents if document]
    if len(documents) < 2:
        problem = "one document" if documents else "no text"
        raise UserError(
            f"{file}: {problem}: put a blank line between documents, of which two are needed"
        )
    rng = random.Random(SEED)
    pairs = []
    for number, document in enumerate(documents):
        for sentence, following in pairwise(document):
            if rng.random() < 0.5:
                pairs.append((sentence, following, "1"))
                continue
            other = rng.randrange(len(documents) - 1)
            other += other >= number
            pairs.append((sentence, rng.choice(documents[other]), "0"))
    if not pairs:
        raise UserError(f"{file}: no document has two sentences: write one sentence a line")
    columns = zip(*pairs, strict=True)
    return dict(zip((first, second, label), map(list, columns), strict=True))
