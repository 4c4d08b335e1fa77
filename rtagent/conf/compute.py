"""[compute]: the host CPUs for guests, NUMA packing, the refresh from Placement, and the provider
files.
"""

from collections.abc import Sequence

from rtagent.conf.options import Group, mutable
from rtagent.conf.types import CpuSet, Items, StandardTrait

#: The beginning of the traits of image formats.
IMAGE_TYPE = "COMPUTE_IMAGE_TYPE_"


class Compute(Group, frozen=True, kw_only=True):
    """[compute].

    :ivar resource_provider_association_refresh:
        The interval at which the agent looks in Placement for changes that others made to the
        records of this host, in seconds. The agent then reads only the providers whose generation
        has changed. The interval is shortened at random by up to a half each time, so that the
        agents of many hosts do not send their requests at the same moment. 0: read the records
        once, and afterwards only after a conflict.
    :ivar consecutive_build_service_disable_threshold:
        The number of failed builds in a row at which the agent disables its service, so that the
        scheduler selects other hosts. A good build does not enable it again: ``rtagent service
        enable`` does. After that, as many builds may fail as before. 0: failed builds are counted,
        and disable nothing.
    :ivar cpu_shared_set:
        The host CPUs for shared vCPUs, and for emulator threads with
        ``hw:emulator_threads_policy=share``. A list of CPU numbers and ranges; ``^`` excludes a
        number or a range that an earlier entry included: ``0-3,^1,8``. They are the inventory of
        resource class VCPU.

        Unset: all online CPUs, or none if ``cpu_dedicated_set`` is set. Every CPU must exist, be
        online and be in only one of the two sets.
    :ivar cpu_dedicated_set:
        The host CPUs for dedicated vCPUs, that is, for guests with ``hw:cpu_policy`` ``dedicated``
        or ``mixed``. Written like ``cpu_shared_set``. They are the inventory of resource class
        PCPU. Unset: no guest is pinned to host CPUs.

        If a CPU leaves the set or the host while a guest is pinned to it, the guest keeps it.
    :ivar image_type_exclude_list:
        Image formats that guests of this host must not have, though libvirt supports them:
        ``qcow2`` with Ceph or LVM, or ``raw`` on a slow network, for example. Their traits
        (``COMPUTE_IMAGE_TYPE_QCOW2``) are not published.
    :ivar packing_host_numa_cells_allocation_strategy:
        The order in which the NUMA cells of the host are tried for a guest.

        * True: the most used cell first, so that whole cells stay free.
        * False: the least used cell first.
    :ivar provider_config_location:
        The directory of the provider files, an absolute path. Each file ``*.yaml`` in it adds
        inventories and traits to resource providers of this host, in Nova's format (schema 1.0). A
        directory that does not exist, or an empty value: nothing is added.

        The files are read at the start and at each reload. A mistake in one of them stops the
        start; at a reload the files that were read before stay in force.
    """

    resource_provider_association_refresh: int = mutable(default=300, min=0)
    consecutive_build_service_disable_threshold: int = mutable(default=10, min=0)
    cpu_shared_set: frozenset[int] | None = mutable(type=CpuSet())
    cpu_dedicated_set: frozenset[int] | None = mutable(type=CpuSet())
    image_type_exclude_list: Sequence[str] = mutable(
        default=[], type=Items(StandardTrait(IMAGE_TYPE, implied=IMAGE_TYPE))
    )
    packing_host_numa_cells_allocation_strategy: bool = mutable(default=False)
    provider_config_location: str = mutable(default="/etc/rtagent/provider_config/")
