"""[libvirt]: the hypervisor, persistent memory, and the power of host CPUs."""

from collections.abc import Sequence

from rtagent.conf.options import Group, mutable, option
from rtagent.model.base import MAX_INT

#: Nova's own default for QEMU and KVM if no URI is set.
SYSTEM = "qemu:///system"


class Libvirt(Group, frozen=True, kw_only=True):
    """[libvirt].

    :ivar connection_uri:
        The URI of the hypervisor: ``qemu:///system``, ``qemu:///session``, or ``test:///FILE`` for
        a simulated host (see ``rtagent host simulate``). An empty value, which a nova.conf may
        have, means the default.
    :ivar call_timeout:
        The time limit of a call to libvirt in seconds, from 1 to 600. A call that does not return
        in time fails the item that is read, for example one domain, or the whole audit if libvirt
        does not answer at all. The agent itself is never blocked.
    :ivar guests_start_timeout:
        The time in seconds that guests have to start after a reboot of the host, from the first
        start of the agent. Until then a claim whose guest is not back has the flag ``reboot``;
        afterwards it is suspect. 0: it is suspect at once, as after a restart of the agent.
    :ivar realtime_scheduler_priority:
        The priority of realtime vCPUs in the scheduler of Linux (SCHED_FIFO), from 1 to 99.
    :ivar pmem_namespaces:
        The persistent memory namespaces for guests, by label:
        ``LABEL:namespace[|namespace][,LABEL:...]``, for example ``128G:ns0|ns1,MEDIUM:ns2``. The
        namespaces must exist, in mode ``devdax`` and each under a name of its own: the agent lists
        them with the command ``ndctl``, which must be installed. Each label makes a resource class
        ``CUSTOM_PMEM_NAMESPACE_LABEL``; flavors request labels (``hw:pmem``).

        A namespace that vanishes while a guest has it stays with the guest, and is reported. A
        namespace that a domain without a claim uses is not given to a guest.
    :ivar file_backed_memory:
        The capacity for the memory of guests in files, in MiB; 0: guests have ordinary memory.

        If set, this is the memory of the node, and the memory of new guests is in files of the
        directory ``memory_backing_dir`` of libvirt's ``qemu.conf``. The host's own memory is a
        cache for them. It requires QEMU, ``ram_allocation_ratio`` 1.0 and
        ``reserved_host_memory_mb`` 0. Guests that request a page size (``hw:mem_page_size``) are
        refused.
    :ivar num_memory_encrypted_guests:
        The most guests at once with memory that AMD SEV encrypts, from 0 to 100000. It lowers the
        number that libvirt reports. A libvirt before 8.0 reports none: then encryption is available
        only if this option is set. SEV-ES and SEV-SNP have a number of their own, which the
        firmware of the host sets.
    :ivar num_intel_tdx_guests:
        The most guests at once with memory that Intel TDX encrypts. It lowers the number of the
        kernel's ``misc.capacity``. Where the agent does not see that number, encryption by Intel
        TDX is available only if this option is set.
    :ivar cpu_power_management:
        Save power on the host CPUs of ``[compute] cpu_dedicated_set`` to which no guest is pinned.
        The agent's systemd unit needs the drop-in rtagent-cpu-power.conf for this. When a reload
        turns the option off, all of these CPUs are brought back to full power.
    :ivar cpu_power_management_strategy:
        How power is saved on unused CPUs. ``cpu_state`` never sets CPU 0 offline; Linux does not
        allow it.
    :ivar cpu_power_governor_low:
        The governor of CPUs to which no guest is pinned, with strategy ``governor``.
    :ivar cpu_power_governor_high:
        The governor of CPUs to which a guest is pinned, with strategy ``governor``.
    """

    connection_uri: str = option(default=SYSTEM)
    call_timeout: int = option(default=10, min=1, max=600)
    guests_start_timeout: int = option(default=600, min=0)
    realtime_scheduler_priority: int = mutable(default=1, min=1, max=99)
    pmem_namespaces: Sequence[str] = mutable(default=[])
    file_backed_memory: int = mutable(default=0, min=0, max=MAX_INT)
    num_memory_encrypted_guests: int | None = mutable(min=0, max=100000)
    num_intel_tdx_guests: int | None = mutable(min=0, max=MAX_INT)
    cpu_power_management: bool = mutable(default=False)
    cpu_power_management_strategy: str = option(
        default="cpu_state",
        choices=[
            (
                "cpu_state",
                "CPUs are set offline, and online again before a guest is started on them",
            ),
            ("governor", "CPUs are given another frequency governor"),
        ],
    )
    cpu_power_governor_low: str = option(default="powersave")
    cpu_power_governor_high: str = option(default="performance")

    @property
    def uri(self) -> str:
        """The URI of the hypervisor; the default if the option is empty."""
        return self.connection_uri or SYSTEM
