"""Agents that are killed at every named point of their commits, and at random moments."""
