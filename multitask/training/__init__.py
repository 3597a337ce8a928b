"""How weights come about: set-up, step, loss, trainer, stages, checkpoints."""
