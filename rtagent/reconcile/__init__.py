"""Reconciling the recorded state with an observation of the host: pure.

`plan` compares a snapshot with an observation that began *after* the snapshot was taken; `apply`
checks each step again against the current state. Observing first would lose claims that are made
before the snapshot.
"""
