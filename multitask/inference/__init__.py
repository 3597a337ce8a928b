"""A trained model at work: scores, vectors, search, analysis, export, and a page to try it."""
