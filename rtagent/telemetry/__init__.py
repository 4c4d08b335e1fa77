"""Telemetry of a running agent: metrics, health, the log."""
