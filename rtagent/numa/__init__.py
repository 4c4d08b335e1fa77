"""How guests fit onto the host's NUMA cells: pure."""
