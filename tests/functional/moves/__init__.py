"""Moves of real guests' documents between real agents."""
