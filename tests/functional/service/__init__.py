"""rtagentd as a process of its own."""
