"""CAGrad of torchjd, which needs cvxpy."""

NEEDS = "cvxpy"


def reference():
    from torchjd.aggregation import CAGrad

    return CAGrad(c=0.4)
