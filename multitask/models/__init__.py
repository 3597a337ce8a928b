"""How a batch becomes scores: encoders, poolers, projections, losses, the multi-task model."""
