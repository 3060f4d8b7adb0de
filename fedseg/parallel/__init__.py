"""Clients on several workers: processes of Ray, on one machine or many. The extra ``ray``."""
