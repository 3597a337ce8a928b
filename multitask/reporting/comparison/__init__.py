"""Compare finished runs: groups of seeds, paired bootstrap, tables and figures."""
