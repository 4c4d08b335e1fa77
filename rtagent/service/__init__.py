"""The daemon: the adapters, the threads, start and stop."""
