"""The state of a node in memory, and the only way to change it."""
