"""The world: real servers and daemons on loopback, with a relay in each connection."""
