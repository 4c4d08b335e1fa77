"""Compute monitors: what ``[DEFAULT] compute_monitors`` names."""
