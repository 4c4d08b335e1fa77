"""Simulated hosts: files for libvirt's test driver, written and edited.

A simulated host is a host file, which is its world, and a capabilities document beside it. libvirt
opens it as ``test:///FILE``; what is changed in it by `edit` reaches whoever watches the file, and
stays.

    simulate(file, Machine(sockets=2, cores=8, threads=2, memory_mb=65536))
    with edit(file) as world:
        world.add_domain(domain_xml(uuid, vcpus=2, memory_mb=2048))
"""

from rtagent.virt.libvirt.hostfile import host_uri
from rtagent.virt.simulate.domain import domain_xml
from rtagent.virt.simulate.file import edit, simulate
from rtagent.virt.simulate.machine import Machine
from rtagent.virt.simulate.world import SimulationError, World

__all__ = ["Machine", "SimulationError", "World", "domain_xml", "edit", "host_uri", "simulate"]
