"""Configs: the schema of its components, its layers and the roles of its keys."""
