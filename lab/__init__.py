"""Lab hosts: hypervisors in software, on which the agent runs as the service that it is.

A real kernel with NUMA cells, threads, huge pages, an IOMMU and SR-IOV, libvirt and QEMU, emulated
without any help of this machine's processor. `tools/lab` is the command; tests/lab uses the same.
"""
