"""A logit from the distance."""

from tests.support.formulas import distance


def naive_scores(head, u, v):
    return head.slope.item() * distance(u, v) + head.bias.item()
