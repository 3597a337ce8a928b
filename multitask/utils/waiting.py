"""Set how long OpenMP's threads wait for one another without sleeping.

Torch divides each operation among the threads of libgomp. A thread that has done its part spins
until the others have theirs, 300,000 times (milliseconds) before it sleeps. On a busy machine the
core would have served the others meanwhile: docs/measured/performance.md.
"""

import os

SPINS = 10_000  # measured by benchmarks/busy.py


def limit_spinning() -> None:
    """Let threads spin ``SPINS`` times, unless a variable of the user says how they wait.

    Libgomp reads the variables when torch is loaded, so this must be called before.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
