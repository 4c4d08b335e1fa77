"""Doubles for tests. No daemon imports them."""
