"""Durable state: SQL stores, and doubles that behave like them."""
