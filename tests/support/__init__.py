"""Builders and harnesses that several layers of the tests share.

``hosts`` has hosts, requests and clocks; ``numa_hosts``, ``pci_hosts``, ``device_states`` and
``owned_hosts`` hosts with cells and devices; ``claims``, ``guests`` and ``node_devices`` claims
and documents of libvirt; ``move_host`` the rules of moves; ``trackers``, ``agents`` and ``rpc``
running parts; ``stores`` and ``stored_values`` databases; ``host_states``, ``scheduling``
and ``scheduler_rpc`` schedulers; ``workload`` callers during failures.
"""
