"""The benchmarks, with the environment that run_multitask.py sets."""

import os

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # read by torch with its first tensor
