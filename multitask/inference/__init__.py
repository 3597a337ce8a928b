"""A trained model at work: scores, vectors, search, analysis, exports, a page to try it."""
