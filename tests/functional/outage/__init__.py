"""Outages of what the agent depends on, under a stream of claims."""
