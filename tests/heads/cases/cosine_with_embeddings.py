"""A linear layer on the cosine and both vectors."""

from tests.support.formulas import affine, dot, norm, scaled


def naive_scores(head, u, v):
    a, b = affine(head.adjust, u), affine(head.adjust, v)
    return scaled(affine(head.output, [dot(a, b) / (norm(a) * norm(b)), *a, *b])[0])
