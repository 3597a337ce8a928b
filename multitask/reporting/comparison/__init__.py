"""Finished runs side by side: groups of seeds, paired bootstrap, tables and a figure."""
