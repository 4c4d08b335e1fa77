"""How guests fit onto the host's NUMA cells: pure functions of values."""
