"""Settings: the whole configuration as one frozen value, read once and at each reload.

A value that breaks its option's type or bounds, or a rule between options, is a `ConfigError`;
all of them are raised at once, as an `ExceptionGroup`.
"""

from __future__ import annotations

import math
import os.path
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from oslo_config import cfg

from rtagent.conf import opts
from rtagent.conf.api import Api
from rtagent.conf.claims import Claims
from rtagent.conf.compute import Compute
from rtagent.conf.database import Database
from rtagent.conf.default import Default
from rtagent.conf.devices import Devices, mdev_group, mdev_options
from rtagent.conf.libvirt import Libvirt
from rtagent.conf.numa import numa_policy
from rtagent.conf.pci import Pci
from rtagent.conf.pci_policy import DeviceOptions
from rtagent.conf.reading import Mistakes, mistake, note, values
from rtagent.conf.types import ReservedPages
from rtagent.conf.upgrade_levels import UpgradeLevels
from rtagent.errors import ConfigError
from rtagent.model.base import Value
from rtagent.numa import cpu_sets
from rtagent.pci.mdev import MdevSettings

RATIOS = ("cpu", "ram", "disk")


class Settings(Value, frozen=True, kw_only=True):
    """One field per option group; each has one field per option.

    :ivar mdev: the groups of the enabled types of mediated devices, by type.
    """

    default: Default
    api: Api
    claims: Claims
    compute: Compute
    database: Database
    devices: Devices
    libvirt: Libvirt
    pci: Pci
    upgrade_levels: UpgradeLevels
    mdev: Mapping[str, MdevSettings]

    @property
    def device_options(self) -> DeviceOptions:
        """What the operator says of devices."""
        return DeviceOptions(
            pci=self.pci, devices=self.devices, mdev=self.mdev, libvirt=self.libvirt
        )

    @property
    def powered_cpus(self) -> frozenset[int]:
        """Host CPUs whose power is managed."""
        managed, dedicated = self.libvirt.cpu_power_management, self.compute.cpu_dedicated_set
        return dedicated or frozenset() if managed else frozenset()

    def doubts(self) -> list[str]:
        """A sentence for each thing that is allowed, and hardly meant."""
        return [f"{doubt.item}: {doubt.message}" for doubt in self.device_options.doubts()]


_GROUPS = {
    "DEFAULT": Default,
    "api": Api,
    "claims": Claims,
    "compute": Compute,
    "database": Database,
    "devices": Devices,
    "libvirt": Libvirt,
    "pci": Pci,
    "upgrade_levels": UpgradeLevels,
}


def read(conf: cfg.ConfigOpts) -> Settings:
    """The settings of a parsed configuration.

    :raises ExceptionGroup: of `ConfigError`: every mistake that it has.
    """
    settings, mistakes = judge(conf)
    refuse(mistakes)
    return settings


def judge(conf: cfg.ConfigOpts) -> tuple[Settings, Mistakes]:
    """The settings, and every mistake: what cannot be read counts as its default, to judge on."""
    mistakes: Mistakes = {}
    options = dict(opts.groups())
    groups = {
        name.lower(): kind(**values(conf, name, options[name], mistakes))
        for name, kind in _GROUPS.items()
    }
    mdev = _read_mdev(conf, groups["devices"].enabled_mdev_types, mistakes)
    settings = Settings(mdev=mdev, **groups)
    for error in broken_rules(settings):
        note(mistakes, error)
    return settings, mistakes


def refuse(mistakes: Mistakes) -> None:
    """:raises ExceptionGroup: of all of them, if there are any."""
    if mistakes:
        raise ExceptionGroup("the configuration cannot be used", list(mistakes.values()))


def broken_rules(settings: Settings) -> Iterator[ConfigError]:
    """The rules that one option's type cannot express."""
    default, claims = settings.default, settings.claims
    for name in RATIOS:
        for option in (f"{name}_allocation_ratio", f"initial_{name}_allocation_ratio"):
            if math.isnan(getattr(default, option) or 0.0):
                yield mistake("DEFAULT", option, "nan", "must be a number")
    for option in ("state_path", "instances_path", "lock_path"):
        path = getattr(default, option)
        if not os.path.isabs(path):
            yield mistake("DEFAULT", option, path, "must be an absolute path")
    if default.service_down_time <= default.report_interval:
        yield mistake(
            "DEFAULT",
            "service_down_time",
            default.service_down_time,
            f"must be more than report_interval ({default.report_interval}),"
            " or a service would be down between two heartbeats",
        )
    if claims.operation_retention < 2 * claims.claim_expiry_time:
        yield mistake(
            "claims",
            "operation_retention",
            claims.operation_retention,
            f"must be at least twice claim_expiry_time ({claims.claim_expiry_time}),"
            " or a repeated call could be done twice",
        )
    yield from _reserved_twice(default.reserved_huge_pages or ())
    yield from _power(settings)
    numa = numa_policy(default, settings.compute, settings.libvirt)
    yield from cpu_sets.contradictions(numa, default.reserved_host_cpus)
    yield from settings.device_options.mistakes()


def _power(settings: Settings) -> Iterator[ConfigError]:
    if not settings.libvirt.cpu_power_management:
        return
    if not settings.compute.cpu_dedicated_set:
        rule = "needs [compute] cpu_dedicated_set: it is those CPUs that it manages"
        yield mistake("libvirt", "cpu_power_management", True, rule)
    if settings.libvirt.connection_uri.startswith("test:"):
        rule = "is not for a simulated host: the CPUs would be this machine's"
        yield mistake("libvirt", "cpu_power_management", True, rule)


def _reserved_twice(reserved: Sequence[ReservedPages]) -> Iterator[ConfigError]:
    pools = Counter((pages.node, pages.size) for pages in reserved)
    for pages in reserved:
        if pools.pop((pages.node, pages.size), 0) > 1:
            rule = f"says twice how many pages of {pages.size} KiB cell {pages.node} reserves"
            yield mistake("DEFAULT", "reserved_huge_pages", pages, rule)


def _read_mdev(
    conf: cfg.ConfigOpts, types: Sequence[str], mistakes: Mistakes
) -> dict[str, MdevSettings]:
    opts.register_mdev(conf, types)
    return {
        type_: MdevSettings(**values(conf, mdev_group(type_), mdev_options(type_), mistakes))
        for type_ in types
    }
