"""From data files to padded batches."""
