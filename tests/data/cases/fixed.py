"""Shares that the config gives."""


def options(rows):
    return {"weights": {task: i + 1.0 for i, task in enumerate(rows)}}


def weights(rows, epoch, epochs, weights):
    return weights
