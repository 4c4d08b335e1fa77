"""The daemon: the only place that picks concrete adapters, starts them and stops them."""
