"""Hypervisors: adapters of `rtagent.ports.Hypervisor`."""
