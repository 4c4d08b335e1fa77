"""The agent as an installed service, on emulated hypervisors (`lab`).

Not among what `tools/test` runs by default: `tools/test --lab`.
"""
