"""Shares by the number of rows."""


def weights(rows, epoch, epochs):
    return rows
