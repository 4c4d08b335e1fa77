"""[claims] and [capacity]: leases, the retention of records, how claims are counted and judged, and
the flavors that are asked about.
"""

from rtagent.conf.options import Group, mutable
from rtagent.model.policy import DeviceOrder


class Claims(Group, frozen=True, kw_only=True):
    """[claims]. Times are in seconds.

    :ivar claim_expiry_time:
        The lease of a claim in state ``building`` or ``incoming``, in seconds; at least 10. A
        caller that needs more time renews the claim. When the lease has lapsed, the claim ends as
        soon as a complete audit has found no domain for it.
    :ivar operation_retention:
        The time for which the outcome of a call is kept, in seconds; at least 20, and at least
        twice ``claim_expiry_time``. A call that is repeated within this time with the same
        operation id gets the recorded answer and is not executed again. Released claims and
        finished migrations are kept for the same time. Only the time for which the node's agent
        runs is counted, so a wrong clock has no effect.
    :ivar same_host_resize_reuse:
        Count only the larger of the two claims that an instance has while it is resized on its own
        host.

        * False: both claims are counted in full.
        * True: of each resource the larger quantity is counted, and both claims may be pinned to
          the same host CPUs, because only one of the two guests ever runs. A resize then fits a
          host that is nearly full.

        In both cases the new claim reuses the devices that the instance has already, unless
        ``same_host_device_reuse`` is false.
    :ivar same_host_device_reuse:
        Let the two claims that an instance has while it is resized on its own host share devices
        and other assigned resources.

        * True: the new claim gets the devices that the instance has already, and further ones.
        * False: the new claim gets devices that no claim has. A resize needs the devices of both
          claims at the same time, as in Nova.
    :ivar judge_amounts:
        Refuse a claim for which the host as a whole has too few vCPUs, or too little memory or
        disk.

        False: these amounts are counted and published, and Placement alone decides on them. A claim
        that follows allocations in Placement may then differ from them in VCPU, PCPU, MEMORY_MB and
        DISK_GB. Dedicated CPUs, NUMA cells, pages, devices and assigned resources are judged in
        both cases.
    :ivar device_order: Which of several PCI devices a claim gets that are equal for its guest.
    """

    claim_expiry_time: int = mutable(default=300, min=10)
    operation_retention: int = mutable(default=86400, min=20)
    same_host_resize_reuse: bool = mutable(default=False)
    same_host_device_reuse: bool = mutable(default=True)
    judge_amounts: bool = mutable(default=True)
    device_order: DeviceOrder = mutable(
        default="first",
        choices=[
            ("first", "the lowest addresses"),
            ("last", "the highest addresses of a pool, as Nova assigns them"),
        ],
    )


class CapacityOptions(Group, frozen=True, kw_only=True):
    """[capacity].

    :ivar flavors_file:
        The absolute path of a file with flavors. For these and for the flavors of live claims,
        ``rtagent capacity list``, ``rtagent schedule capacity``, the page and the metrics tell how
        many more guests fit. Agents and schedulers have a file of their own each.

        The file has what ``openstack flavor list --long -f json`` or ``openstack flavor show -f
        json`` prints, in JSON if its name ends in ``.json``, else in YAML. A reload reads it again.
    """

    flavors_file: str = mutable(default="")
