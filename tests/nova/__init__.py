"""Nova's own functional tests, with the tracker of nova-compute replaced."""
