"""[compute], [libvirt], [pci], [devices], [mdev_<type>] and [neutron]: what of the host guests can
have, and how it is found.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any

from oslo_config import cfg, types

from rtagent.conf.options import CpuSet, Group, Items, StandardTrait, mutable, option, options
from rtagent.model.base import MAX_INT
from rtagent.pci.mdev import VGPU

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


class Pci(Group, frozen=True, kw_only=True):
    """[pci]: the JSON documents as the operator wrote them.

    :ivar device_spec:
        The devices that guests can be given: a JSON object, or a list of objects. May be repeated.
        The first object that matches a device, in the order of the file, defines its properties.

        Keys that select devices; a key that is absent matches every device:

        * ``vendor_id``, ``product_id``: hexadecimal numbers, with or without ``0x``, or ``*``
        * ``address``: ``[[[[domain]:]bus]:][slot][.[function]]``, where each field is hexadecimal,
          ``*`` or absent; or an object with a regular expression for each of ``domain``, ``bus``,
          ``slot`` and ``function``, which must match from the start of the field. The address of
          one physical function also selects its virtual functions.
        * ``devname``: the name of a network interface on the host; it also selects the interface's
          virtual functions. It cannot be combined with ``address``.

        Keys that define properties of the selected devices:

        * ``physical_network``: the physical network of a network card; ``null`` for tunnelled
          networks
        * ``trusted``: a port may request this virtual function as a trusted one (yes or no;
          default: no). In Nova, of the words for yes only ``true`` counts here.
        * ``remote_managed``: the virtual function belongs to a SmartNIC with its own control plane
          (default: no). A virtual function whose card has no serial number is not available to
          guests. Not for physical functions: an object with ``devname`` or one ``address`` needs
          the ``product_id`` of the virtual functions.
        * ``managed``: libvirt detaches the device from its host driver and reattaches it (default:
          yes)
        * ``live_migratable``: the device can be live-migrated with its guest (default: no)
        * ``one_time_use``: after its first use the device is quarantined until an operator clears
          it (default: no). Not for virtual functions: one that matches is not available to guests.
        * ``resource_class``: the class in Placement. A standard class, in upper or lower case, or
          any other name: ``my-gpu`` becomes ``CUSTOM_MY_GPU``. Absent or empty:
          ``CUSTOM_PCI_<VENDOR>_<PRODUCT>``.
        * ``traits``, separated by commas: of the provider in Placement. A standard trait in upper
          case, or any other name, which becomes ``CUSTOM_*`` in the same way. A blank is part of a
          name, as in Nova.

        Another key is a mistake: misspelt, it would select other devices. Nova keeps it as a tag.

        ::

          device_spec = {"vendor_id": "10de", "product_id": "13f1"}
          device_spec = {"address": "0000:20:00.0", "physical_network": "physnet1", "trusted": "true"}
          device_spec = {"address": {"bus": "8[0-9a-f]", "function": "[2-7]"}, "physical_network": null}

        A device that no longer matches a specification while a guest uses it stays with that guest.
    :ivar report_in_placement:
        Publish the devices of ``device_spec`` to Placement: a child provider for each device, or
        for each physical function, whose inventory counts its virtual functions. False: Placement
        has no records of devices.

        Devices with a ``physical_network``, which belong to ports, are not published. The rules for
        the others:

        * No ``device_spec`` has a ``devname``: the agent does not start.
        * The virtual functions of one physical function have the same ``resource_class`` and the
          same ``traits``.
        * No physical function is available to guests together with its virtual functions.

        A device that breaks the second or the third rule is not published; the audit reports it.
    :ivar alias:
        A name by which flavors request devices (``pci_passthrough:alias=NAME:COUNT``): a JSON
        object, or a list of objects. May be repeated; objects with the same name are alternatives.

        * ``name``: required
        * ``vendor_id`` and ``product_id``, both hexadecimal; or ``resource_class``; or all three.
          Names of classes and traits are those of ``device_spec``.
        * ``device_type``: ``type-PCI``, ``type-PF``, ``type-VF`` or ``vdpa``. A physical function
          or a vDPA device is only allocated for an alias that names its type.
        * ``numa_policy``: ``required``, ``legacy`` (the default: required if the device reports its
          NUMA node), ``preferred`` or ``socket``; the same for all alternatives
        * ``traits``: separated by commas; the device must have all of them
        * ``live_migratable``: yes or no; absent: both match

        ::

          alias = {"name": "QuadroM4000-video", "vendor_id": "10de", "product_id": "13f1"}
    """  # noqa: E501  a line of an example cannot be broken

    device_spec: Sequence[str] = mutable(
        cfg.MultiStrOpt,
        default=[],
        deprecated_opts=[
            cfg.DeprecatedOpt("passthrough_whitelist", group="pci"),
            cfg.DeprecatedOpt("pci_passthrough_whitelist", group="DEFAULT"),
        ],
    )
    report_in_placement: bool = mutable(default=False)
    alias: Sequence[str] = mutable(
        cfg.MultiStrOpt, default=[], deprecated_name="pci_alias", deprecated_group="DEFAULT"
    )


class Devices(Group, frozen=True, kw_only=True):
    """[devices].

    :ivar enabled_mdev_types:
        The types of mediated devices for guests, as the driver names them: ``nvidia-35,
        nvidia-36``.

        The group ``[mdev_<type>]`` has the options of one type. The first type without
        ``device_addresses`` is enabled on all devices that support it and that no other type has.
        Further types without ``device_addresses`` are not enabled.
    """

    enabled_mdev_types: Sequence[str] = mutable(default=[], deprecated_name="enabled_vgpu_types")


class MdevOptions(Group, frozen=True, kw_only=True):
    """[mdev_<type>].

    :ivar device_addresses:
        The PCI addresses of the devices on which the type is enabled: ``0000:84:00.0,
        0000:85:00.0``. A device can have only one type.
    :ivar mdev_class:
        The resource class of the devices of this type: ``VGPU``, or ``CUSTOM_`` followed by capital
        letters, digits and underscores. Nova gives the class ``VGPU`` to the devices of a type
        without ``device_addresses``, whatever this option says.
    :ivar max_instances:
        The maximum number of devices of this type on one physical device, all of its virtual
        functions included; at least 1. Unset: as many as they support. Nova applies the number to
        the host as a whole.
    """

    device_addresses: Sequence[str] = mutable(default=[])
    mdev_class: str = mutable(default=VGPU)
    max_instances: int | None = mutable()


def mdev_group(type_: str) -> str:
    """Return the name of the option group of a type of mediated devices."""
    return f"mdev_{type_}"


def mdev_options(type_: str) -> list[cfg.Opt]:
    """Return the options of that group. The first one was in ``[vgpu_<type>]`` of Nova."""
    addresses, *others = options(MdevOptions)
    addresses = copy(addresses)
    addresses.deprecated_opts = [cfg.DeprecatedOpt(addresses.name, group=f"vgpu_{type_}")]
    return [addresses, *others]


def _numa_nodes(whose: str) -> dict[str, Any]:
    return {
        "default": [],
        "type": Items(types.Integer(min=0, max=MAX_INT)),
        "mutable": True,
        "help": f"The ids of the NUMA cells of {whose}: ``0,1``. They must exist on this host.",
    }


class Neutron(Group, frozen=True, kw_only=True):
    """[neutron].

    :ivar physnets:
        The physical networks of this host whose traffic belongs to NUMA cells, for example ``foo,
        bar``.

        The group ``[neutron_physnet_<name>]`` of each of them must list these cells
        (``numa_nodes``). A guest with NUMA cells that is attached to such a network gets at least
        one of them. Other networks have no affinity. For tunnelled networks see
        ``[neutron_tunnel]``.
    """

    physnets: Sequence[str] = mutable(default=[])


class NeutronTunnel(Group, frozen=True, kw_only=True):
    """[neutron_tunnel]."""

    numa_nodes: Sequence[int] = option(
        **_numa_nodes("tunnelled networks (VXLAN, GRE and others); empty: they have no affinity")
    )


def physnet_group(name: str) -> str:
    """Return the name of the option group of a physical network."""
    return f"neutron_physnet_{name}"


def physnet_options() -> list[cfg.Opt]:
    """Return the options of that group."""
    return [cfg.Opt("numa_nodes", **_numa_nodes("the physical network, at least one"))]
