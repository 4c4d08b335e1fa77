"""All options: registered on a configuration, or listed for the generator of the sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oslo_config import cfg

from rtagent.conf import (
    api,
    claims,
    compute,
    database,
    default,
    devices,
    libvirt,
    pci,
    placement,
    upgrade_levels,
)

_MODULES = (default, api, claims, compute, database, devices, libvirt, pci, upgrade_levels)


def groups() -> list[tuple[str, list[cfg.Opt]]]:
    """Each group of rtagent's own with its options."""
    return [(module.GROUP, module.OPTS) for module in _MODULES]


def section(group: str) -> str | None:
    """The group's name as oslo.config takes it."""
    return None if group == default.GROUP else group


def register_opts(conf: cfg.ConfigOpts) -> None:
    """All options of this project but those of `register_mdev`, and those of Placement's client."""
    for group, options in groups():
        conf.register_opts(options, section(group))
    placement.register(conf)


def register_mdev(conf: cfg.ConfigOpts, types: Iterable[str]) -> None:
    """The options of types of mediated devices, whose names are in the configuration itself."""
    for type_ in types:
        conf.register_opts(devices.mdev_options(type_), devices.mdev_group(type_))


def list_opts() -> Sequence[tuple[str, Sequence[cfg.Opt]]]:
    """What oslo.config's generator and validator ask for (``oslo.config.opts``)."""
    mdev = (devices.mdev_group("<type>"), devices.mdev_options("<type>"))
    return [*groups(), mdev, (placement.GROUP, placement.documented())]
