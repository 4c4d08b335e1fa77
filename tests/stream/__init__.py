"""Claims under hardship: callers that want definite answers, what they were told, and a judge.

A `Caller` makes one deed after the other and repeats each, under the same operation id, until it
has a definite answer. The `Ledger` keeps what they were told. The `Judge` reads the database with
plain SQL and compares: at any moment, whatever died or was away in between.
"""
