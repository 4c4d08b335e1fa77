"""The page of one host of a fleet: what the scheduler knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rtagent.api import scheduler_hosts
from rtagent.api.page import quantities
from rtagent.api.page.fleet import bars
from rtagent.api.page.fleet_hosts import MEANINGS, SIGNS, FleetHost, fleet_host
from rtagent.api.page.host_map import host_map
from rtagent.api.page.owners import OwnerRows
from rtagent.api.page.rendering import Content
from rtagent.api.page.times import duration
from rtagent.errors import InvariantViolated
from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.scheduler.errors import HostNotFound
from rtagent.scheduler.host_state import HostState

#: Instances that are listed.
ROWS = 500


def fleet_host_page(
    states: Sequence[HostState], name: str, now: float, down_time: float, at: datetime
) -> Content:
    """Return the page of a host: its map, made of the instances that its agent has reported.

    :param now: on the monotonic clock. :param at: the time.
    :raises HostNotFound:
    """
    document = scheduler_hosts.host(states, name, now, down_time)["host"]
    state = next((each for each in states if each.uuid == document["uuid"]), None)
    if state is None:
        raise HostNotFound(host=name)
    host = fleet_host(state, document)
    shown = _reported(state, at)
    pages = None if shown is None else host_map(shown, OwnerRows())
    values = {
        "host": host,
        "bars": bars(host),
        "sign": SIGNS[host.status],
        "meaning": MEANINGS[host.status],
        "facts": [(label, value) for label, value in _facts(document, host) if value],
        "metrics": [(each.name, f"{each.value:g}") for each in state.metrics],
        "pools": document["pci_stats"],
        "mapped": pages is not None,
        "instances": () if pages is not None else _instances(state),
        "unlisted": max(0, len(state.instances) - ROWS),
    }
    return Content(
        template="fleet_host.html",
        values={**(pages.values if pages is not None else {}), **values},
    )


def _facts(document: Mapping[str, Any], host: FleetHost) -> list[tuple[str, str]]:
    hypervisor = f"{document['hypervisor_type']} {_version(document['hypervisor_version'])}"
    return [
        ("Node", document["nodename"]),
        ("Uuid", document["uuid"]),
        ("Address", document["host_ip"]),
        ("Page, which cannot be a link", "" if host.page_url else document["page_url"]),
        ("Availability zone", document["availability_zone"] or ""),
        ("Aggregates", ", ".join(document["aggregates"])),
        ("Hypervisor", hypervisor if document["hypervisor_type"] else ""),
        ("Last message", "never" if host.age is None else f"{duration(host.age)} ago"),
        ("Revision", f"{document['revision']} of epoch {document['epoch']}"),
        ("Disabled", document["disabled_reason"] or ""),
        ("Failed builds", str(document["failed_builds"] or "")),
        ("Busy instances", str(document["num_io_ops"] or "")),
    ]


def _version(number: int) -> str:
    """A version of libvirt's form: major * 1,000,000 + minor * 1,000 + release."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def _reported(state: HostState, at: datetime) -> NodeState | None:
    """The state of the host with its owners, which the replica has only as a sum. None: it was not
    described yet, or the list of instances contradicts itself for the moment."""
    replica = state.replica
    if replica.topology is None:
        return None
    infos = [state.instances[uuid] for uuid in state.instances]
    claims = {claim.uuid: claim for info in infos for claim in info.claims}
    bare = NodeState(
        node=replica.node,
        policy=replica.policy,
        topology=replica.topology,
        epoch=replica.epoch,
        devices=replica.devices,
        resource_inventories=replica.resource_inventories,
    )
    change = Change(
        cause="report",
        at=at,
        puts=tuple(replace(claim, node_uuid=replica.node.uuid) for claim in claims.values()),
        domain_usages=tuple(each.domain_usage for each in infos if each.domain_usage is not None),
    )
    try:
        return bare.fold(change)
    except InvariantViolated:
        return None


def _instances(state: HostState) -> list[Mapping[str, Any]]:
    rows = []
    for uuid in sorted(state.instances)[:ROWS]:
        info = state.instances[uuid]
        first = info.claims[0] if info.claims else None
        domain = info.domain_usage
        name = first.instance.display_name if first else domain.name if domain else None
        rows.append(
            {
                "uuid": uuid,
                "name": name or uuid,
                "here": info.here,
                "states": ", ".join(dict.fromkeys(each.state for each in info.claims)),
                "vcpus": sum(each.vcpus + each.pcpus for each in info.claims),
                "memory": quantities.megabytes(sum(each.memory_mb for each in info.claims)),
                "differs": domain is not None,
                "claimed": bool(info.claims),
            }
        )
    return sorted(rows, key=lambda each: (str(each["name"]), each["uuid"]))
