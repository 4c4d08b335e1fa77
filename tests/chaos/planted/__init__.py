"""Planted defects: they prove that a run with its checker finds what it is there for."""
