"""Settings: the whole configuration as one frozen value, read at the start and at each reload.

A value that violates its option's type or bounds, or a rule between options, is a `ConfigError`.
All of them are raised together, as an `ExceptionGroup`.
"""

from __future__ import annotations

import math
import os.path
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec.structs import asdict, fields, replace
from oslo_config import cfg

from rtagent.conf.api import Api
from rtagent.conf.claims import Claims
from rtagent.conf.compute import IMAGE_TYPE, Compute
from rtagent.conf.conductor import ConductorSettings
from rtagent.conf.database import Database, Events
from rtagent.conf.default import Default
from rtagent.conf.devices import Devices, MdevOptions, mdev_group, mdev_options
from rtagent.conf.filter_scheduler import FilterOptions, FilterScheduler, Metrics
from rtagent.conf.libvirt import Libvirt
from rtagent.conf.neutron import (
    NetworkOptions,
    Neutron,
    NeutronTunnel,
    physnet_group,
    physnet_options,
)
from rtagent.conf.options import Group, Mistakes, mistake, note, options, sections, values
from rtagent.conf.pci import Pci
from rtagent.conf.placement import PlacementOptions
from rtagent.conf.policy import DeviceOptions, make_policy, numa_policy
from rtagent.conf.rpc import Rpc, UpgradeLevels
from rtagent.conf.scheduler import Scheduler, SchedulerOptions
from rtagent.conf.types import ReservedPages
from rtagent.errors import ConfigError
from rtagent.model.base import Value
from rtagent.model.node import Ratios
from rtagent.model.policy import (
    ManageAllocations,
    NumaPolicy,
    PlacementPolicy,
    Policy,
    ProviderFiles,
)
from rtagent.numa import host_cpus

RATIOS = ("cpu", "ram", "disk")


class Settings(Value, frozen=True, kw_only=True):
    """One field for each option group, which has one field for each option.

    :ivar mdev: the groups of the enabled types of mediated devices, by type.
    :ivar physnets: the NUMA cells of the listed physical networks, by name.
    :ivar provider_files: what the files of ``[compute] provider_config_location`` add.
    """

    default: Default
    api: Api
    claims: Claims
    compute: Compute
    conductor: ConductorSettings
    database: Database
    devices: Devices
    events: Events
    filter_scheduler: FilterScheduler
    libvirt: Libvirt
    metrics: Metrics
    neutron: Neutron
    neutron_tunnel: NeutronTunnel
    pci: Pci
    placement: PlacementOptions
    rpc: Rpc
    scheduler: Scheduler
    upgrade_levels: UpgradeLevels
    mdev: Mapping[str, MdevOptions]
    physnets: Mapping[str, Sequence[int]]
    provider_files: ProviderFiles = ProviderFiles()

    def policy(self, recorded: Ratios) -> Policy:
        """Return the policy that results from these settings for a node with these
        recorded ratios, without what the provider files add.
        """
        policy = make_policy(
            self.default,
            self.claims,
            self.numa_policy,
            self.device_options.policy(),
            recorded,
        )
        return replace(
            policy,
            placement=self.placement_policy,
            max_sev_guests=self.libvirt.num_memory_encrypted_guests,
        )

    @property
    def placement_policy(self) -> PlacementPolicy:
        """The policy for Placement."""
        images = (IMAGE_TYPE + each.upper() for each in self.compute.image_type_exclude_list)
        return PlacementPolicy(
            manage_allocations=ManageAllocations(self.placement.manage_allocations),
            withheld_traits=frozenset({*self.placement.withheld_traits, *images}),
        )

    @property
    def numa_policy(self) -> NumaPolicy:
        """The policy for CPUs, cells and pages."""
        networks = self.network_options.policy()
        return numa_policy(self.default, self.compute, self.libvirt, networks)

    @property
    def network_options(self) -> NetworkOptions:
        """The options for networks."""
        return NetworkOptions(neutron=self.neutron, tunnel=self.neutron_tunnel, cells=self.physnets)

    @property
    def device_options(self) -> DeviceOptions:
        """The options for devices."""
        return DeviceOptions(
            pci=self.pci, devices=self.devices, mdev=self.mdev, libvirt=self.libvirt
        )

    @property
    def filter_options(self) -> FilterOptions:
        """The options of the scheduler's filters and weighers."""
        return FilterOptions(
            **asdict(self.filter_scheduler),
            metrics=self.metrics,
            default_availability_zone=self.default.default_availability_zone,
        )

    @property
    def scheduler_options(self) -> SchedulerOptions:
        """The options of the scheduler itself."""
        return SchedulerOptions(
            **asdict(self.scheduler),
            service_down_time=self.default.service_down_time,
            pci_in_placement=self.filter_scheduler.pci_in_placement,
            aliases=self.device_options.policy().aliases,
        )

    @property
    def powered_cpus(self) -> frozenset[int]:
        """The host CPUs whose power is managed; none if power management is off."""
        managed, dedicated = self.libvirt.cpu_power_management, self.compute.cpu_dedicated_set
        return dedicated or frozenset() if managed else frozenset()

    def doubts(self) -> list[str]:
        """Return a sentence for each setting that is valid but probably not intended."""
        devices = (f"{doubt.item}: {doubt.message}" for doubt in self.device_options.doubts())
        return [*devices, *self.provider_files.doubts]


@cache
def groups() -> Mapping[str, type[Group]]:
    """Return the declared groups by their names in files, in the order of the sample file."""
    return {
        "DEFAULT" if info.type is Default else info.name: info.type
        for info in fields(Settings)
        if isinstance(info.type, type) and issubclass(info.type, Group)
    }


class SettingsHolder:
    """The settings in force. A reload replaces them as a whole.

    A thread reads `current` each time that it needs a setting, so a reload takes effect at the
    thread's next turn.
    """

    def __init__(self, settings: Settings) -> None:
        self.current = settings


def read(conf: cfg.ConfigOpts) -> Settings:
    """Return the settings of a parsed configuration.

    :raises ExceptionGroup: of `ConfigError`: every mistake in the configuration.
    """
    settings, mistakes = judge(conf)
    refuse(mistakes)
    return settings


def read_options(conf: cfg.ConfigOpts) -> Settings:
    """Return the settings without provider files, for a program that does not need a policy.

    :raises ExceptionGroup: of `ConfigError`: every mistake in the options.
    """
    settings, mistakes = _judge_options(conf)
    refuse(mistakes)
    return settings


def judge(conf: cfg.ConfigOpts, files: ProviderFiles | None = None) -> tuple[Settings, Mistakes]:
    """Return the settings and every mistake.

    An option that cannot be read counts as its default, so that the other rules can be checked.

    :param files: what the provider files add; None: they are read.
    """
    settings, mistakes = _judge_options(conf)
    if files is None:
        from rtagent.conf.provider_files import read_files

        files, wrong = read_files(settings.compute.provider_config_location)
        for error in wrong:  # a file can have several
            mistakes["compute", str(error)] = error
    return replace(settings, provider_files=files), mistakes


def _judge_options(conf: cfg.ConfigOpts) -> tuple[Settings, Mistakes]:
    mistakes: Mistakes = {}
    read: dict[str, Any] = {
        name.lower(): group(**values(conf, name, options(group), mistakes))
        for name, group in groups().items()
    }
    mdev = _read_mdev(conf, read["devices"].enabled_mdev_types, mistakes)
    physnets = _read_physnets(conf, read["neutron"].physnets, mistakes)
    settings = Settings(mdev=mdev, physnets=physnets, **read)
    written = {group for _, found in sections(conf) for group in found}
    unlisted = settings.network_options.unlisted(written)
    for error in (*broken_rules(settings), *unlisted):
        note(mistakes, error)
    return settings, mistakes


def refuse(mistakes: Mistakes) -> None:
    """Raise the mistakes, if there are any. :raises ExceptionGroup: of all of them."""
    if mistakes:
        raise ExceptionGroup("the configuration cannot be used", list(mistakes.values()))


def broken_rules(settings: Settings) -> Iterator[ConfigError]:
    """Check the rules that the types of single options cannot express."""
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
            " or a service would count as down between two heartbeats",
        )
    if claims.operation_retention < 2 * claims.claim_expiry_time:
        yield mistake(
            "claims",
            "operation_retention",
            claims.operation_retention,
            f"must be at least twice claim_expiry_time ({claims.claim_expiry_time}),"
            " or a repeated call could be executed twice",
        )
    yield from _calls(settings)
    yield from _reports(settings)
    yield from _reserved_twice(default.reserved_huge_pages or ())
    yield from _power(settings)
    yield from _file_backed(settings)
    yield from host_cpus.contradictions(settings.numa_policy, default.reserved_host_cpus)
    yield from settings.device_options.mistakes()
    yield from settings.network_options.mistakes()


def _calls(settings: Settings) -> Iterator[ConfigError]:
    rpc, retention = settings.rpc, settings.claims.operation_retention
    for option in ("signature_window", "max_call_rate"):
        if math.isnan(getattr(rpc, option)):
            yield mistake("rpc", option, "nan", "must be a number")
    if rpc.keys_file is not None and rpc.signature_window * 2 > retention:
        rule = (
            f"must be at most half of [claims] operation_retention ({retention}), or a signed call"
            " could be repeated after its outcome was forgotten"
        )
        yield mistake("rpc", "signature_window", rpc.signature_window, rule)


#: Options of [scheduler] that are numbers of seconds.
_SECONDS = (
    "host_report_interval",
    "report_jitter",
    "assume_timeout",
    "request_timeout",
    "start_grace",
)


def _reports(settings: Settings) -> Iterator[ConfigError]:
    scheduler, longest = settings.scheduler, settings.default.report_interval
    for option in _SECONDS:
        if math.isnan(getattr(scheduler, option)):
            yield mistake("scheduler", option, "nan", "must be a number")
    if scheduler.host_report_interval > longest:
        rule = f"must be at most [DEFAULT] report_interval ({longest})"
        yield mistake("scheduler", "host_report_interval", scheduler.host_report_interval, rule)


def _power(settings: Settings) -> Iterator[ConfigError]:
    if not settings.libvirt.cpu_power_management:
        return
    if not settings.compute.cpu_dedicated_set:
        rule = "needs [compute] cpu_dedicated_set, whose CPUs it manages"
        yield mistake("libvirt", "cpu_power_management", True, rule)
    if settings.libvirt.connection_uri.startswith("test:"):
        rule = "cannot be used with a simulated host: it would manage the CPUs of this machine"
        yield mistake("libvirt", "cpu_power_management", True, rule)


def _file_backed(settings: Settings) -> Iterator[ConfigError]:
    """Memory in files cannot be overcommitted, and the host's own memory is not part of it."""
    default, why = settings.default, "because of [libvirt] file_backed_memory"
    if not settings.libvirt.file_backed_memory:
        return
    if default.ram_allocation_ratio != 1.0:
        value = default.ram_allocation_ratio
        yield mistake("DEFAULT", "ram_allocation_ratio", value, f"must be 1.0, {why}")
    if default.reserved_host_memory_mb:
        value = default.reserved_host_memory_mb
        yield mistake("DEFAULT", "reserved_host_memory_mb", value, f"must be 0, {why}")
    if not settings.libvirt.uri.startswith(("qemu", "test")):
        rule = f"must be QEMU's, {why}"
        yield mistake("libvirt", "connection_uri", settings.libvirt.uri, rule)


def _reserved_twice(reserved: Sequence[ReservedPages]) -> Iterator[ConfigError]:
    pools = Counter((pages.node, pages.size) for pages in reserved)
    for pages in reserved:
        if pools.pop((pages.node, pages.size), 0) > 1:
            rule = f"reserves pages of {pages.size} KiB in cell {pages.node} twice"
            yield mistake("DEFAULT", "reserved_huge_pages", pages, rule)


def _read_mdev(
    conf: cfg.ConfigOpts, types: Sequence[str], mistakes: Mistakes
) -> dict[str, MdevOptions]:
    read = {}
    for type_ in types:
        group, declared = mdev_group(type_), mdev_options(type_)
        conf.register_opts(declared, group)
        read[type_] = MdevOptions(**values(conf, group, declared, mistakes))
    return read


def _read_physnets(
    conf: cfg.ConfigOpts, names: Sequence[str], mistakes: Mistakes
) -> dict[str, Sequence[int]]:
    read = {}
    for name in names:
        group, declared = physnet_group(name), physnet_options()
        conf.register_opts(declared, group)
        read[name] = values(conf, group, declared, mistakes)["numa_nodes"]
    return read
