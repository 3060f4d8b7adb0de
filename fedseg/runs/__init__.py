"""A finished run as data: schema, history, results."""
