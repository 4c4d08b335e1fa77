"""Callers with random lives, whose calls and answers are recorded."""
