"""Trust: who calls, how that is proved, and what the caller may do."""
