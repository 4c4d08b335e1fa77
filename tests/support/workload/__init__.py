"""Load during failures: callers, a ledger of the answers, and a checker of the database.

A `Caller` makes one operation after the other and repeats each, under the same operation id, until
it has a definite answer. The `Ledger` records the answers. The `Checker` reads the database with
plain SQL and compares it with the ledger, at any moment, after any failure.
"""
