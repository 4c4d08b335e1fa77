"""[libvirt]: the connection to the hypervisor."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "libvirt"

OPTS = [
    cfg.StrOpt(
        "connection_uri",
        default="qemu:///system",
        help="""
The URI of the hypervisor: ``qemu:///system``, ``qemu:///session``, or ``test:///FILE`` for a
simulated host (see ``rtagent host simulate``).
""",
    ),
    cfg.IntOpt(
        "call_timeout",
        default=10,
        min=1,
        max=600,
        help="""
Seconds after which a call that hangs in libvirt is given up. It costs the item that was being read
(a domain, say), or the audit when nothing answers, never the agent.
""",
    ),
    cfg.IntOpt(
        "realtime_scheduler_priority",
        default=1,
        min=1,
        max=99,
        mutable=True,
        help="The priority of vCPUs that run under the kernel's realtime scheduler (SCHED_FIFO).",
    ),
    cfg.ListOpt(
        "pmem_namespaces",
        default=[],
        mutable=True,
        help="""
Namespaces of persistent memory that guests may be given, under labels:
``LABEL:namespace[|namespace][,LABEL:...]``, for example ``128G:ns0|ns1,MEDIUM:ns2``. They must
exist already. A label makes the resource class ``CUSTOM_PMEM_NAMESPACE_LABEL``, and flavors ask
for labels (``hw:pmem``).
""",
    ),
]


class Libvirt(Value, frozen=True, kw_only=True):
    """:ivar call_timeout: seconds. :ivar pmem_namespaces: as they are written."""

    connection_uri: str
    call_timeout: int
    realtime_scheduler_priority: int
    pmem_namespaces: Sequence[str]
