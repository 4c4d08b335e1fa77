"""The main job, played on a simulated hypervisor with real servers beside it."""
