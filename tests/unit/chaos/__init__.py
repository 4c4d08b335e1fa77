"""Chaos runs, without servers."""
