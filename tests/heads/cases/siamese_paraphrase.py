"""One logit from features of both vectors."""

from itertools import combinations

from heads.siamese_paraphrase import FEATURES
from tests.support.formulas import affine

SETS = [{"features": list(names)} for size in range(1, 5) for names in combinations(FEATURES, size)]
ONE_SIDED = [options for options in SETS if options["features"] in (["u"], ["v"])]
VARIANTS = [options for options in SETS if options not in ONE_SIDED]
VARIANTS += [{"features": ["product", "abs_diff", "v", "u"]}]


def naive_scores(head, u, v, features=("abs_diff",)):
    made = {
        "u": u,
        "v": v,
        "sum": [a + b for a, b in zip(u, v, strict=True)],
        "abs_diff": [abs(a - b) for a, b in zip(u, v, strict=True)],
        "product": [a * b for a, b in zip(u, v, strict=True)],
    }
    return affine(head.linear, [x for name in features for x in made[name]])[0]
