"""The rules of the checker: a file for each promise."""
