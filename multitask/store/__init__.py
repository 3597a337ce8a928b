"""What a run is on disk: files that are complete or absent, the lock, the run directory."""
