"""Simulated hosts: files for libvirt's test driver, written and edited.

A simulated host is a host file and a capabilities document next to it. libvirt opens it as
``test:///FILE``. Changes made by `edit` are durable, and reach every process that watches the file.

    simulate(file, Machine(sockets=2, cores=8, threads=2, memory_mb=65536))
    with edit(file) as world:
        world.add_domain(domain_xml(uuid, vcpus=2, memory_mb=2048))
"""

from rtagent.virt.libvirt.hostfile import host_uri
from rtagent.virt.simulate.file import edit, simulate
from rtagent.virt.simulate.machine import Machine
from rtagent.virt.simulate.world import SimulationError, World, domain_xml

__all__ = ["Machine", "SimulationError", "World", "domain_xml", "edit", "host_uri", "simulate"]
