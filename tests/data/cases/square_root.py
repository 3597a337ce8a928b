"""Shares by the square root of the number of rows."""


def weights(rows, epoch, epochs):
    return {task: count**0.5 for task, count in rows.items()}
