"""The rules between options, which the types of single options cannot express."""

import os.path
from collections import Counter
from collections.abc import Iterator, Sequence

from rtagent.conf.compute import physnet_group
from rtagent.conf.options import ReservedPages, mistake
from rtagent.conf.settings import Settings
from rtagent.errors import ConfigError
from rtagent.numa import host_cpus


def broken_rules(settings: Settings) -> Iterator[ConfigError]:
    """Check the rules that the types of single options cannot express."""
    default, claims = settings.default, settings.claims
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
    yield from _devices(settings)
    yield from _networks(settings)


def _calls(settings: Settings) -> Iterator[ConfigError]:
    rpc, retention = settings.rpc, settings.claims.operation_retention
    if rpc.keys_file is not None and rpc.signature_window * 2 > retention:
        rule = (
            f"must be at most half of [claims] operation_retention ({retention}), or a signed call"
            " could be repeated after its outcome was forgotten"
        )
        yield mistake("rpc", "signature_window", rpc.signature_window, rule)


def _reports(settings: Settings) -> Iterator[ConfigError]:
    scheduler, longest = settings.scheduler, settings.default.report_interval
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


def _devices(settings: Settings) -> Iterator[ConfigError]:
    """Yield the first mistake of each option for devices."""
    for read in settings.device_readers().values():
        try:
            read()
        except ConfigError as error:
            yield error


def _networks(settings: Settings) -> Iterator[ConfigError]:
    """Yield an error for each listed network without NUMA cells."""
    for name, cells in settings.physnets.items():
        if not cells:
            rule = f"must list the NUMA cells of {name}, which is in [neutron] physnets"
            yield mistake(physnet_group(name), "numa_nodes", "", rule)
