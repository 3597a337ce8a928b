"""Where the runs of a sweep run: one file per engine."""
