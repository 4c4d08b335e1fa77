"""Measures of the source that no library takes: the documentation, and what the tests notice."""
