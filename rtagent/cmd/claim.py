"""rtagent claim: the reading commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rtagent.cmd.columns import Nothing, Pairs, Yes, when
from rtagent.cmd.devices import Devices, Requests, Resources
from rtagent.cmd.listing import List, Show
from rtagent.cmd.place import Place

Row = tuple[Sequence[str], Sequence[Any]]


class ClaimList(List):
    """List the live claims, oldest first"""

    nouns = "claims"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--instance", metavar="UUID", help="Only this instance's.")
        parser.add_argument("--state", help="Only those in this state, active for one.")
        parser.add_argument("--long", action="store_true", help="More columns.")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        claims = self.world.read("claims", instance=parsed_args.instance, state=parsed_args.state)[
            "claims"
        ]
        columns = _LONG if parsed_args.long else _SHORT
        return tuple(columns), [tuple(cell(c) for cell in columns.values()) for c in claims]


class ClaimShow(Show):
    """Show a live claim, whole"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("claim", metavar="UUID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return shown(self.world.read("claims", parsed_args.claim)["claim"])


def shown(claim: Mapping[str, Any]) -> Row:
    """A claim's document, field by field."""
    return tuple(_WHOLE), tuple(cell(claim) for cell in _WHOLE.values())


def _fact(name: str) -> Any:
    return lambda claim: Nothing(claim["instance"].get(name))


def _field(name: str) -> Any:
    return lambda claim: claim[name]


def _maybe(name: str) -> Any:
    return lambda claim: Nothing(claim.get(name))


def _time(name: str) -> Any:
    return lambda claim: when(claim.get(name))


def _pairs(name: str) -> Any:
    return lambda claim: Pairs(claim.get(name) or {})


_SHORT = {
    "uuid": _field("uuid"),
    "instance_uuid": _field("owner_id"),
    "display_name": _fact("display_name"),
    "state": _field("state"),
    "suspect": lambda claim: Yes(claim["suspect"]),
    "vcpus": _field("vcpus"),
    "memory_mb": _field("memory_mb"),
    "disk_mb": _field("disk_mb"),
    "created_at": _time("created_at"),
}

_LONG = {
    **_SHORT,
    "expires_at": _time("expires_at"),
    "kind": _field("kind"),
    "node": _field("node"),
    "project_id": _fact("project_id"),
    "vm_state": _fact("vm_state"),
    "task_state": _fact("task_state"),
    "tag": _maybe("tag"),
}

_WHOLE = {
    "uuid": _field("uuid"),
    "state": _field("state"),
    "suspect": _maybe("suspect"),
    "kind": _field("kind"),
    "instance_uuid": _field("owner_id"),
    **{
        name: _fact(name)
        for name in ("display_name", "project_id", "user_id", "vm_state", "task_state", "os_type")
    },
    "is_volume_backed": lambda claim: Yes(claim["instance"].get("is_volume_backed")),
    "host": _field("host"),
    "node": _field("node"),
    "vcpus": _field("vcpus"),
    "pcpus": _field("pcpus"),
    "memory_mb": _field("memory_mb"),
    "disk_mb": _field("disk_mb"),
    "numa_topology": lambda claim: Place(claim["numa_topology"]),
    "pci": lambda claim: Devices(claim["pci"]),
    "resources": lambda claim: Resources(claim["resources"]),
    "flavor": _pairs("flavor"),
    "image": lambda claim: Pairs(claim["image"].get("properties") or {}),
    "limits": _pairs("limits"),
    "pci_requests": lambda claim: Requests(claim["pci_requests"]),
    "extra_resource": _pairs("extra_resource"),
    "tag": _maybe("tag"),
    "migration_uuid": _maybe("migration_uuid"),
    "created_at": _time("created_at"),
    "updated_at": _time("updated_at"),
    "expires_at": _time("expires_at"),
    "revision": _field("revision"),
}
