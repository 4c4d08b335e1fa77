"""What the agent has found: the commands audit run, and list of drift, migrations, orphans and
resources.
"""

import argparse

from rtagent.cmd.base import List, Row, Rows, Show, columns, row, rows
from rtagent.cmd.output import Lines, OrEmpty, YesNo, timestamp

_AUDIT = columns(
    *("summary=sentence", "complete", "applied", "skipped", "claims", "orphans", "drifts"),
    *("absent", "suspects", "problems", "seconds"),
    complete=YesNo,
    problems=lambda problems: Lines([f"{p['item']}: {p['message']}" for p in problems]),
    seconds=lambda seconds: round(seconds, 3),
)
_DRIFT = columns(
    *("instance_uuid=owner_id", "claim_uuid", "resource", "claimed", "observed", "unit", "problem")
)
_MIGRATIONS = columns(
    *("uuid", "instance_uuid", "type=migration_type", "role", "status", "from=source_compute"),
    *("to=dest_compute", "claim=claim_uuid", "updated_at"),
    **{"from": OrEmpty, "to": OrEmpty, "claim": OrEmpty, "updated_at": timestamp},
)
_ORPHANS = columns(
    *("domain_uuid", "name", "running=active", "vcpus", "memory_mb", "unknown=occupancy.unknown"),
    running=YesNo,
    unknown=lambda unknown: Lines(sorted(unknown)),
)
_RESOURCES = ("resource_class", "identifier", "status", "owner_id", "name", "present")
_LONG_RESOURCES = (*_RESOURCES, "parent_addr", "provider", "mdev_uuid", "claim_uuid", "node")


class AuditRun(Show):
    """Run an audit now, and show what it found and changed."""

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return row(_AUDIT, self.app.client.call("update_available_resource"))


class DriftList(List):
    """List the differences between domains and their claims.

    The larger quantity counts as used. A claimed host CPU or device that is removed, offline or no
    longer in the inventory is an AssignedResourceNotFound: the claim keeps it. A domain may use
    more of a kind of resources with UsageUnknown, because a part of its document cannot be read.
    The agent does not change a domain or a claim because of drift.
    """

    nouns = "drift"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return rows(_DRIFT, self.app.client.read("drift")["drift"])


class MigrationList(List):
    """List the moves of which this host is the source or the destination, oldest first.

    Each is shown as recorded on this side. Those that have ended are kept for some time.
    """

    nouns = "migrations"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--instance", metavar="UUID", help="Only moves of this instance.")
        parser.add_argument("--status", help="Only moves in this status, for example finished.")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        filters = {"instance": parsed_args.instance, "status": parsed_args.status}
        return rows(_MIGRATIONS, self.app.client.read("migrations", **filters)["migrations"])


class OrphanList(List):
    """List the domains on the host that have no claim.

    Their resources count as used, so that no claim gets them. The column unknown names the kinds of
    resources of which a domain may use more, because a part of its document cannot be read. While
    it runs, no claim gets any resource of these kinds; "rtagent audit run" lists what to correct.
    """

    nouns = "orphans"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return rows(_ORPHANS, self.app.client.read("orphans")["orphans"])


class ResourceList(List):
    """List the assigned resources (virtual GPUs, persistent memory) with their owners.

    One that is claimed and not present was removed from the host or from the configuration; the
    claim keeps it.
    """

    nouns = "assigned resources"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--long", action="store_true", help="Show more columns.")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        names = _LONG_RESOURCES if parsed_args.long else _RESOURCES
        cells = columns(*names, default=OrEmpty, present=YesNo)
        return rows(cells, self.app.client.read("resources")["resources"])
