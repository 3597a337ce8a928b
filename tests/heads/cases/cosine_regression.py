"""The cosine, on the label scale."""

from tests.support.formulas import affine, dot, norm, scaled

VARIANTS = [{"linear": True}]


def naive_scores(head, u, v, linear=False):
    a, b = (affine(head.linear, side) if linear else side for side in (u, v))
    return scaled(dot(a, b) / (norm(a) * norm(b)))
