"""Placement: what this host offers, mirrored. No claim ever waits for it."""
