"""Conductors of a chaos run: processes that work on the same servers."""
