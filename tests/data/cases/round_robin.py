"""Each task in turn: it has no shares and needs no options."""
