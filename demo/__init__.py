"""The demonstration: the agent's main job on a simulated hypervisor, with real servers."""
