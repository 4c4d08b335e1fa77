"""The Placement mirror: publishes this host's inventories and traits. No claim waits for it."""
