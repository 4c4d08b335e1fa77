"""Quiet periods: faults end, everything is answered and audited, and then everything is read."""
