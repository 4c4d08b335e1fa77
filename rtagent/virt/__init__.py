"""Hypervisor adapters: implementations of `rtagent.ports.Hypervisor`."""
