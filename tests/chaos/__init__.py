"""Chaos: random callers on real parts while faults are injected, and a checker of what was seen.

`tools/chaos` runs it. It is a tool of the developers and is not shipped.
"""
