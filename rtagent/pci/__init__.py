"""Which devices the host offers, and which of them a guest gets: pure."""
