"""Agents of many simulated hosts with real servers: what grows with a fleet, and what does not."""
