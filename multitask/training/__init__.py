"""Training a run: set-up, steps, losses, stages, checkpoints, and the saved results."""
