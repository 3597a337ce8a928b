"""A page on this machine's own address where one tries a run: ``run_multitask.py serve RUN``."""
