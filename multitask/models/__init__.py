"""From a batch to scores: encoders, poolers, projections, losses, the multi-task model."""
