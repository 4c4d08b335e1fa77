"""The agent as the service that it is, on hypervisors in software (`lab`).

Not among what `tools/test` runs by default: `tools/test --lab`.
"""
