"""Lab hosts: emulated hypervisors, on which the agent runs as an installed service.

A host has a Linux kernel with NUMA cells, CPU threads, huge pages, an IOMMU and SR-IOV, and runs
libvirt and QEMU. The emulation needs no virtualisation support of the processor. `tools/lab` is the
command; tests/lab uses the same modules.
"""
