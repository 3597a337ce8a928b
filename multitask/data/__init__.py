"""Data: read files, tokenize, sample and collate padded batches."""
