"""All options: registered on a configuration, or listed for the generator of the sample."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from rtagent.conf import (
    api,
    claims,
    compute,
    database,
    default,
    libvirt,
    placement,
    upgrade_levels,
)

_MODULES = (default, api, claims, compute, database, libvirt, upgrade_levels)


def groups() -> list[tuple[str, list[cfg.Opt]]]:
    """Each group of rtagent's own with its options."""
    return [(module.GROUP, module.OPTS) for module in _MODULES]


def section(group: str) -> str | None:
    """The group's name as oslo.config takes it."""
    return None if group == default.GROUP else group


def register_opts(conf: cfg.ConfigOpts) -> None:
    """All options of this project, and those of Placement's client."""
    for group, options in groups():
        conf.register_opts(options, section(group))
    placement.register(conf)


def list_opts() -> Sequence[tuple[str, Sequence[cfg.Opt]]]:
    """What oslo.config's generator and validator ask for (``oslo.config.opts``)."""
    return [*groups(), (placement.GROUP, placement.documented())]
