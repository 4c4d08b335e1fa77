"""All options: to be registered on a configuration, or listed for the sample file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oslo_config import cfg

from rtagent.conf import (
    api,
    claims,
    compute,
    conductor,
    database,
    default,
    devices,
    events,
    filter_scheduler,
    libvirt,
    metrics,
    neutron,
    neutron_tunnel,
    pci,
    placement,
    rpc,
    scheduler,
    upgrade_levels,
)

_MODULES = (
    default,
    api,
    claims,
    compute,
    conductor,
    database,
    devices,
    events,
    filter_scheduler,
    libvirt,
    metrics,
    neutron,
    neutron_tunnel,
    pci,
    placement,
    rpc,
    scheduler,
    upgrade_levels,
)


def groups() -> list[tuple[str, list[cfg.Opt]]]:
    """Return rtagent's own groups with their options."""
    return [(module.GROUP, module.OPTS) for module in _MODULES]


def section(group: str) -> str | None:
    """Return the group's name as oslo.config expects it: None for DEFAULT."""
    return None if group == default.GROUP else group


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of rtagent, except those of `register_mdev` and `register_physnets`."""
    for group, options in groups():
        conf.register_opts(options, section(group))


def register_mdev(conf: cfg.ConfigOpts, types: Iterable[str]) -> None:
    """Register the groups of the mediated device types that the configuration names."""
    for type_ in types:
        conf.register_opts(devices.mdev_options(type_), devices.mdev_group(type_))


def register_physnets(conf: cfg.ConfigOpts, names: Iterable[str]) -> None:
    """Register the groups of the physical networks that the configuration names."""
    for name in names:
        conf.register_opts(neutron.physnet_options(), neutron.physnet_group(name))


def list_opts() -> Sequence[tuple[str, Sequence[cfg.Opt]]]:
    """Return all options for oslo.config's generator and validator (``oslo.config.opts``)."""
    mdev = (devices.mdev_group("<type>"), devices.mdev_options("<type>"))
    physnet = (neutron.physnet_group("<name>"), neutron.physnet_options())
    own = dict(groups())
    own[placement.GROUP] = [*own[placement.GROUP], *placement.documented()]
    return [*own.items(), mdev, physnet]
