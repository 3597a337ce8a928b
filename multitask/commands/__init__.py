"""The commands of ``run_multitask.py``, one file each: ``add_arguments`` and ``run``."""
