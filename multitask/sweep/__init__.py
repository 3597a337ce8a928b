"""A grid of configs and seeds, trained cell by cell."""
