"""How many small changes of the pure core the tests notice."""
