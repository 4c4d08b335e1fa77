"""Stores: durable state in SQL and in memory, and stores that fail on purpose for tests."""
