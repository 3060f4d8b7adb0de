"""What the prepare tools do: verify, convert, split, and render synthetic data."""
