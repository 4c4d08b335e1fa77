"""The settings of a node: Nova's options, and what the virt driver made of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from oslo_config import cfg
from oslo_log import log

from rtagent.conf import load
from rtagent.conf.default import Default
from rtagent.conf.options import ReservedPages
from rtagent.conf.provider_files import read_files
from rtagent.conf.settings import Settings
from rtagent.model.policy import ProviderFiles
from rtagent.nova.driver_report import host_cells

LOG = log.getLogger(__name__)
#: The directory of rtagent's files in ``[DEFAULT] state_path``.
DIRECTORY = "rtagent"


def state_directory(nova: Any) -> Path:
    """Return the directory of rtagent's files. :param nova: Nova's configuration."""
    return Path(nova.state_path) / DIRECTORY


def default_options() -> cfg.ConfigOpts:
    """Return a configuration in which every option has its default. No file is read."""
    conf = cfg.ConfigOpts()
    load.register(conf)
    conf([], load.PROJECT, default_config_files=[], default_config_dirs=[], use_env=False)
    return conf


def options_of_files() -> cfg.ConfigOpts:
    """Return the configuration of rtagent's files on this host, which need not exist.

    :raises ExceptionGroup: of `ConfigError`: every mistake in them.
    """
    conf = load.parse(cfg.ConfigOpts(), [], load.PROJECT)
    load.read_options(conf)
    return conf


def settings_in(conf: cfg.ConfigOpts, directory: Path) -> Settings:
    """Return the settings of a configuration.

    :param directory: ``state_path``, unless the files have another one.
    """
    conf.set_default("state_path", str(directory))
    return load.read_options(conf)


def node_settings(
    nova: Any,
    compute_node: Any,
    resources: Mapping[str, Any],
    base: Settings,
    ratios: Mapping[str, float],
) -> Settings:
    """Return the settings of a node.

    CPU sets, reserved pages and networks are those of the cells that the driver reports, because
    the driver applies Nova's rules for these options.

    :param nova: Nova's configuration. :param compute_node: its ComputeNode.
    :param resources: the driver's report.
    :param base: rtagent's own options, with Nova's provider files.
    :param ratios: allocation ratios in place of those of the ComputeNode, by the option of each.
    """
    cells = host_cells(resources)
    physnets = _physnets(cells)
    tunnels = tuple(cell.id for cell in cells if _networks(cell) and _networks(cell).tunneled)
    return replace(
        base,
        default=replace(_default(base.default, nova, compute_node, cells), **ratios),
        claims=replace(
            base.claims,
            judge_amounts=False,  # Placement decides on them
            same_host_device_reuse=False,  # one row of Nova has one owner and one state
            device_order="last",  # Nova's own order
        ),
        compute=replace(
            base.compute,
            cpu_shared_set=_union(cell.cpuset for cell in cells) if cells else None,
            cpu_dedicated_set=_union(cell.pcpuset for cell in cells) or None,
            packing_host_numa_cells_allocation_strategy=(
                nova.compute.packing_host_numa_cells_allocation_strategy
            ),
            provider_config_location="",
        ),
        database=replace(
            base.database,
            connection=f"sqlite:///{state_directory(nova) / compute_node.uuid}.sqlite",
        ),
        libvirt=replace(
            base.libvirt,
            realtime_scheduler_priority=nova.libvirt.realtime_scheduler_priority,
            pmem_namespaces=tuple(nova.libvirt.pmem_namespaces or ()),
        ),
        neutron=replace(base.neutron, physnets=tuple(physnets)),
        neutron_tunnel=replace(base.neutron_tunnel, numa_nodes=tunnels),
        pci=replace(
            base.pci,
            device_spec=tuple(map(_without_one_time_use, nova.pci.device_spec)),
            alias=tuple(nova.pci.alias),
            report_in_placement=nova.pci.report_in_placement,
        ),
        physnets=physnets,
    )


def provider_files(nova: Any) -> ProviderFiles:
    """Return Nova's provider files. What they add to Placement is Nova's: a mistake that Nova
    allows is logged, and claims do not count what it is about.
    """
    files, mistakes = read_files(nova.compute.provider_config_location)
    for error in mistakes:
        LOG.warning("The claims lack a part of a provider file: %s", error)
    return files


def _default(base: Default, nova: Any, compute_node: Any, cells: Sequence[Any]) -> Default:
    return replace(
        base,
        host=compute_node.host,
        my_ip=nova.my_ip,
        state_path=str(state_directory(nova)),
        reserved_host_cpus=nova.reserved_host_cpus,
        reserved_host_memory_mb=nova.reserved_host_memory_mb,
        reserved_host_disk_mb=nova.reserved_host_disk_mb,
        cpu_allocation_ratio=compute_node.cpu_allocation_ratio or 1.0,
        ram_allocation_ratio=compute_node.ram_allocation_ratio or 1.0,
        disk_allocation_ratio=compute_node.disk_allocation_ratio or 1.0,
        reserved_huge_pages=[
            ReservedPages(node=cell.id, size=page.size_kb, count=page.reserved)
            for cell in cells
            for page in cell.mempages
            if page.reserved
        ],
    )


def _union(sets: Any) -> frozenset[int]:
    return frozenset[int]().union(*sets)


def _networks(cell: Any) -> Any:
    return cell.network_metadata if "network_metadata" in cell else None


def _physnets(cells: Sequence[Any]) -> dict[str, tuple[int, ...]]:
    """Return the cells of each physical network that has an affinity."""
    found = defaultdict[str, tuple[int, ...]](tuple)
    for cell in cells:
        for name in sorted(_networks(cell).physnets if _networks(cell) else ()):
            found[name] += (cell.id,)
    return dict(found)


def _without_one_time_use(text: str) -> str:
    """Return a specification without the tag that Nova keeps in Placement (``reserved``)."""
    document = json.loads(text)
    for each in document if isinstance(document, list) else [document]:
        each.pop("one_time_use", None)
    return json.dumps(document)
