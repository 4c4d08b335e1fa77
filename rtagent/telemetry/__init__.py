"""What the agent tells of itself: logs, metrics, health."""
