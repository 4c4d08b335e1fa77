"""[devices] and [mdev_<type>]: mediated devices, such as virtual GPUs."""

from collections.abc import Sequence
from copy import copy

from oslo_config import cfg

from rtagent.conf.options import Group, mutable, options
from rtagent.pci.mdev import VGPU


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
