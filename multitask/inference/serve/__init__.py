"""A local web page to try a run: ``run_multitask.py serve RUN``."""
