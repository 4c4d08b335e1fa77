"""[libvirt]: the connection to the hypervisor."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "libvirt"

#: Nova's own choice for QEMU and KVM where no URI is set.
SYSTEM = "qemu:///system"

OPTS = [
    cfg.StrOpt(
        "connection_uri",
        default=SYSTEM,
        help="""
The URI of the hypervisor: ``qemu:///system``, ``qemu:///session``, or ``test:///FILE`` for a
simulated host (see ``rtagent host simulate``). Empty, as it may be in a nova.conf: the default.
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

The agent knows them by these names alone, and does not see which ones a domain without a claim
uses: leave those out.
""",
    ),
    cfg.BoolOpt(
        "cpu_power_management",
        default=False,
        mutable=True,
        help="""
Have host CPUs of ``[compute] cpu_dedicated_set`` that no guest holds save power. The agent's unit
needs a drop-in for it: rtagent-cpu-power.conf. A reload that ends it has all of them ready.
""",
    ),
    cfg.StrOpt(
        "cpu_power_management_strategy",
        default="cpu_state",
        choices=[
            ("cpu_state", "they are switched off, and on again before a guest is started on them"),
            ("governor", "they have another frequency governor"),
        ],
        help="How they save it. ``cpu_state`` leaves CPU 0 alone, as the kernel does.",
    ),
    cfg.StrOpt(
        "cpu_power_governor_low",
        default="powersave",
        help="With strategy ``governor``: the governor of CPUs that no guest holds.",
    ),
    cfg.StrOpt(
        "cpu_power_governor_high",
        default="performance",
        help="With strategy ``governor``: the governor of CPUs that a guest holds.",
    ),
]


class Libvirt(Value, frozen=True, kw_only=True):
    """:ivar call_timeout: seconds. :ivar pmem_namespaces: as they are written."""

    connection_uri: str
    call_timeout: int
    realtime_scheduler_priority: int
    pmem_namespaces: Sequence[str]
    cpu_power_management: bool
    cpu_power_management_strategy: str
    cpu_power_governor_low: str
    cpu_power_governor_high: str

    @property
    def uri(self) -> str:
        """Of the hypervisor."""
        return self.connection_uri or SYSTEM
