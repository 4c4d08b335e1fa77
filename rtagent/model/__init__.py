"""Frozen values: the data model of the project. No I/O, no clock."""
