"""Train a grid of configs and seeds, and compare its cells."""
