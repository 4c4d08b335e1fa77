"""[devices] and [mdev_<type>]: mediated devices, such as virtual GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from rtagent.model.base import Value
from rtagent.pci.mdev import VGPU

GROUP = "devices"

OPTS = [
    cfg.ListOpt(
        "enabled_mdev_types",
        default=[],
        mutable=True,
        deprecated_name="enabled_vgpu_types",
        help="""
Types of mediated devices that guests may be given, as the driver names them: ``nvidia-35,
nvidia-36``.

Of each, ``[mdev_<type>]`` tells more. With several types each must name the ``device_addresses``
on which it is enabled; if one does not, the first type of all is enabled alone, wherever it is
found.
""",
    ),
]


class Devices(Value, frozen=True, kw_only=True):
    """:ivar enabled_mdev_types: as they are written."""

    enabled_mdev_types: Sequence[str]


def mdev_group(type_: str) -> str:
    """The group that tells of a type of mediated devices."""
    return f"mdev_{type_}"


def mdev_options(type_: str) -> list[cfg.Opt]:
    """The options of that group."""
    return [
        cfg.ListOpt(
            "device_addresses",
            default=[],
            mutable=True,
            deprecated_group=f"vgpu_{type_}",
            help="""
PCI addresses of the devices on which the type is enabled: ``0000:84:00.0, 0000:85:00.0``. A
device has one type at most.
""",
        ),
        cfg.StrOpt(
            "mdev_class",
            default=VGPU,
            mutable=True,
            help="""
The resource class of the type's devices: ``VGPU``, or ``CUSTOM_`` and capitals, digits and
underscores.
""",
        ),
        cfg.IntOpt(
            "max_instances",
            mutable=True,
            help="""
How many devices of the type one physical device offers at most; at least 1. Unset: as many as it
makes.
""",
        ),
    ]


def mdev_types(conf: cfg.ConfigOpts) -> Sequence[str]:
    """The types of a parsed configuration; none when they cannot be read."""
    try:
        return tuple(conf.devices.enabled_mdev_types)
    except (ValueError, cfg.Error):
        return ()
