"""Builders and harnesses that several layers of the tests share.

``hosts`` has hosts, requests and clocks; ``numa_hosts``, ``pci_hosts`` and ``device_states`` have
hosts with NUMA cells and devices; ``guests`` and ``guest_devices`` guests and their documents;
``move_host`` and ``migrating_guests`` moves; ``trackers``, ``agents`` and ``rpc`` running parts;
``workload`` callers during failures.
"""
