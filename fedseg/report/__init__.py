"""What a user looks at after a run: pictures of predictions, curves, tables."""
