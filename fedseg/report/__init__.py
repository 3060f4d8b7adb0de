"""Reports of runs: pictures of predictions, curves, tables."""
