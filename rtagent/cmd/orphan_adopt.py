"""rtagent orphan adopt: make claims of the domains that have none."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import yaml

from rtagent.cmd.base import List, Rows
from rtagent.cmd.exit_codes import Exit
from rtagent.cmd.output import Lines, OrEmpty, pins
from rtagent.errors import AgentUnreachable, ClaimConflict, InvalidRequest, RtAgentError
from rtagent.model.base import Converter, Uuid
from rtagent.model.request import Flavor

COLUMNS = (
    *("domain_uuid", "name", "result", "claim_uuid", "flavor", "project_id"),
    *("vcpus", "pcpus", "memory_mb", "disk_mb", "host_cpus", "pages", "devices", "notes"),
)
ADOPTED, WOULD_BE, NOT_ADOPTED, HAS_CLAIM = "adopted", "would be adopted", "not adopted", "claimed"
#: Where the flavors are, if not in a file.
DOMAIN = "domain"
_uuids = Converter(Uuid)
_flavors_by_domain = Converter(dict[Uuid, Flavor])
_NO_CLAIM: Mapping[str, Any] = {"instance": {}, "flavor": {}, "pci": (), "resources": ()}


class OrphanAdopt(List):
    """Make claims of domains that have none.

    A claim has what its domain has: host CPUs, cells, pages and devices. So the usage of the host
    stays the same. Flavor, project, user and name come from Nova's metadata in the domain. A domain
    that cannot be adopted stays an orphan, and is listed with the reason; then the exit code is 6.
    The host is audited first. A domain that is shut off is adopted with --shut-off only. Its claim
    has what the domain needs to start, so nothing else can get that.
    """

    nouns = "orphans to adopt"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("domains", metavar="UUID", nargs="*", help="A domain to adopt.")
        parser.add_argument(
            "--all",
            action="store_true",
            help="Adopt every orphan that runs; with --shut-off, also every other one.",
        )
        parser.add_argument(
            "--shut-off", action="store_true", help="Adopt domains that are shut off, too."
        )
        parser.add_argument(
            "--flavor-from",
            metavar="domain|FILE",
            default=DOMAIN,
            help="Where the flavors are: in the metadata of the domains, which is the default, or"
            " in a JSON or YAML file that maps uuids of domains to flavors. A domain that the file"
            " does not name has the flavor of its metadata.",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Show the claims; do not make them. Each domain is tested alone: of two that share"
            " a host CPU or a device, only one can be adopted.",
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._code = Exit.OK
        return super().run(parsed_args) or self._code

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        _check(parsed_args)
        flavors = _flavors(parsed_args.flavor_from)
        client = self.app.client
        client.call("update_available_resource")
        orphans = {each["domain_uuid"]: each for each in client.read("orphans")["orphans"]}
        shut_off = parsed_args.shut_off
        every = (uuid for uuid, each in orphans.items() if each["active"] or shut_off)
        wanted = dict.fromkeys(every if parsed_args.all else parsed_args.domains)
        names = {uuid: each["name"] for uuid, each in orphans.items()}
        more = {"shut_off": True} if shut_off else {}
        given = {uuid: {"flavor": msgspec.to_builtins(each)} for uuid, each in flavors.items()}
        arguments = {uuid: {**more, **given.get(uuid, {})} for uuid in wanted}
        return COLUMNS, list(self._rows(names, arguments, parsed_args.dry_run))

    def _rows(
        self, names: Mapping[str, str], arguments: Mapping[str, Mapping[str, Any]], dry_run: bool
    ) -> Iterator[tuple[Any, ...]]:
        """Yield a row for each domain. Without an agent, the others are not tried.

        :param arguments: those of each call, by the uuid of the domain to adopt.
        """
        unreachable: AgentUnreachable | None = None
        for uuid, given in arguments.items():
            name = names.get(uuid, "")
            try:
                if unreachable is not None:
                    raise unreachable
                yield self._adopted(uuid, name, given, dry_run)
            except ClaimConflict as error:
                owned = {**_NO_CLAIM, "uuid": error.kwargs.get("claim_uuid")}
                yield _row(uuid, name, HAS_CLAIM, owned, [])
            except RtAgentError as error:
                if isinstance(error, AgentUnreachable):
                    unreachable = error
                self._code = Exit.RETRY if error.retriable else self._code or Exit.CONFLICT
                yield _row(uuid, name, NOT_ADOPTED, _NO_CLAIM, [str(error)])

    def _adopted(
        self, uuid: str, name: str, given: Mapping[str, Any], dry_run: bool
    ) -> tuple[Any, ...]:
        if dry_run:
            reply = self.app.client.call("test_adoption", uuid, **given)
            claim = {**reply["claim"], "uuid": None}
            return _row(uuid, name, WOULD_BE, claim, reply["notes"])
        operation_id = str(uuid4())
        reply = self.app.client.call("adopt_domain", uuid, operation_id=operation_id, **given)
        return _row(uuid, name, ADOPTED, reply["claim"], reply["notes"])


def _check(arguments: argparse.Namespace) -> None:
    """:raises InvalidRequest: no domain is named, or in two ways, or by something else."""
    mistakes = []
    if arguments.all == bool(arguments.domains):
        rule = "name the domains to adopt, or give --all; not both"
        mistakes.append({"path": "UUID", "message": rule})
    for domain in arguments.domains:
        try:
            _uuids.convert(domain)
        except msgspec.ValidationError:
            mistakes.append({"path": domain, "message": "is not a uuid in lower case"})
    if mistakes:
        raise InvalidRequest(method="orphan adopt", errors=mistakes)


def _flavors(where: str) -> Mapping[str, Flavor]:
    """Return the flavors of a file, by uuid of the domain. :raises InvalidRequest:"""
    if where == DOMAIN:
        return {}
    try:
        document = yaml.safe_load(Path(where).read_bytes())
        return _flavors_by_domain.convert(document)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        message = " ".join((getattr(error, "strerror", None) or str(error)).split())
        raise InvalidRequest.at("orphan adopt", f"--flavor-from {where}", message) from error


def _row(
    uuid: str, name: str, result: str, claim: Mapping[str, Any], notes: Iterable[str]
) -> tuple[Any, ...]:
    topology = claim.get("numa_topology") or {}
    return (
        uuid,
        name or claim["instance"].get("display_name") or "",
        result,
        OrEmpty(claim.get("uuid")),
        OrEmpty(claim["flavor"].get("name")),
        OrEmpty(claim["instance"].get("project_id")),
        *(OrEmpty(claim.get(each)) for each in ("vcpus", "pcpus", "memory_mb", "disk_mb")),
        Lines(list(filter(None, map(pins, topology.get("cells", ()))))),
        Lines([each for cell in topology.get("cells", ()) for each in _pages(cell)]),
        Lines(
            [
                *(device["address"] for device in claim["pci"]),
                *(unit["identifier"] for unit in claim["resources"]),
            ]
        ),
        Lines(list(notes)),
    )


def _pages(cell: Mapping[str, Any]) -> Iterator[str]:
    if cell["pagesize"]:
        number = cell["memory"] * 1024 // cell["pagesize"]
        yield f"{number} of {cell['pagesize']} KiB at cell {cell['id']}"
