"""The prepare tools: verify, convert, split, and render synthetic data."""
