"""Reconciling what was recorded with what was seen: pure.

`plan` compares a snapshot with an observation that began *after* it was taken; `apply` re-checks
each step against the state of the moment. Observing first would lose claims made in between.
"""
