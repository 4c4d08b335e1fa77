"""rtagent upgrade check: whether this release can start on this host, before the daemon is started.

`rtagent doctor` makes the same checks. Each one reads only; nothing is created or changed.
"""

import argparse
import contextlib
import io
import os
import textwrap
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oslo_upgradecheck.upgradecheck import UPGRADE_CHECK_MSG_MAP, Code, Result, UpgradeCommands

from rtagent.cmd.base import List, Rows
from rtagent.cmd.client import Client
from rtagent.cmd.output import safe
from rtagent.conf.settings import Settings
from rtagent.conf.unknown import deprecated, not_honoured, unknown
from rtagent.db import durability, migrate
from rtagent.db.engine import disposed, open_existing
from rtagent.db.node_records import SqlNodes
from rtagent.db.store import SqlStore
from rtagent.errors import ConfigError, RtAgentError, StoreUnavailable, TakeoverPending
from rtagent.identity import enrollment, machine
from rtagent.model.node import Node, NodeRecord
from rtagent.numa import host_cpus
from rtagent.numa.search import check_networks
from rtagent.placement import loading
from rtagent.placement.client import MICROVERSION
from rtagent.ports import HostIdentity, NullReporter
from rtagent.service import assembly
from rtagent.service.configuration import checked

PASS, WARN, FAIL = "pass", "warn", "fail"
#: Damaged rows that are listed, at most.
LISTED = 10


class CheckFinding(NamedTuple):
    """What a check found. :ivar remedy: what to do; "": nothing."""

    result: str
    details: str = ""
    remedy: str = ""


class _NotChecked(Exception):
    """A check cannot be made because another one failed."""


class Checks:
    """The checks. Some need what those before them have found."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._settings: Settings | None = None
        self._records: Sequence[NodeRecord] | None = None
        self._node_uuid: str | None = None
        self._hypervisor: HostIdentity | None = None

    def configuration(self) -> CheckFinding:
        """Fail with every mistake in the configuration."""
        try:
            self._settings = checked(self.client.conf)
        except ExceptionGroup as group:
            return CheckFinding(FAIL, "\n".join(map(str, group.exceptions)))
        return CheckFinding(PASS)

    def options(self) -> CheckFinding:
        """Fail with options of Nova that the agent would ignore. Warn about deprecated and unknown
        options, and about questionable values.
        """
        settings, conf = self._valid_settings(), self.client.conf
        if ignored := list(not_honoured(conf)):
            return CheckFinding(FAIL, "\n".join(map(str, ignored)))
        warnings = [*deprecated(conf), *unknown(conf), *settings.doubts()]
        return CheckFinding(WARN, "\n".join(warnings)) if warnings else CheckFinding(PASS)

    def database(self) -> CheckFinding:
        """Fail if this release may not write to the schema, or the database may lose what is
        committed. Warn if there is no database yet.
        """
        options = self._valid_settings().database
        try:
            engine = open_existing(options.connection, options.operation_timeout)
        except StoreUnavailable as error:
            self._records = ()
            return CheckFinding(WARN, error.message)
        with disposed(engine):
            schema = migrate.check(engine)
            if options.require_durability:
                durability.require(engine)
            self._records = SqlNodes(engine).records()
        return CheckFinding(PASS, f"the schema is {schema}")

    def hypervisor(self) -> CheckFinding:
        """Fail if libvirt is unreachable. Warn if options name CPUs or cells that the host does not
        have: the agent starts only if claims have these CPUs.
        """
        settings = self._valid_settings()
        hypervisor = assembly.hypervisor(settings, NullReporter())
        try:
            self._hypervisor = hypervisor.identity()
            topology = hypervisor.observe().topology
        finally:
            hypervisor.stop()
        numa = settings.numa_policy
        try:
            if topology is not None:
                host_cpus.check(numa, topology, claimed=settings.powered_cpus)
                check_networks(numa.networks, topology)
        except ConfigError as mistake:
            return CheckFinding(WARN, mistake.message, "correct the option that is named")
        return CheckFinding(PASS, f"{settings.libvirt.uri} is {self._hypervisor.hostname}")

    def identity(self) -> CheckFinding:
        """Fail if the state directory or the file compute_id does not fit the node's record.

        The rule is that which the daemon applies when it starts.
        """
        settings = self._valid_settings()
        directory = Path(settings.default.state_path)
        if not directory.is_dir():
            return CheckFinding(
                WARN, f"{directory} does not exist: rtagentd creates it at its first start"
            )
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
            return CheckFinding(FAIL, f"{directory} is not readable and writable for this user")
        compute_id = machine.ComputeId(str(directory))
        node_uuid = self._node_uuid = compute_id.read()
        if self._records is None:
            raise _NotChecked("the database cannot be read")
        if node_uuid is None:
            return self._without_compute_id(compute_id.path, settings.default.host)
        return self._against_record(compute_id.path, node_uuid, settings)

    def rows(self) -> CheckFinding:
        """Fail if this release would grant no claims, because it cannot read what the node has.
        Warn about other damaged rows.
        """
        options, node_uuid = self._valid_settings().database, self._node_uuid
        if self._records is None:
            raise _NotChecked("the database cannot be read")
        if node_uuid is None or not any(r.node.uuid == node_uuid for r in self._records):
            raise _NotChecked("the host has no record in the database")
        with disposed(open_existing(options.connection, options.operation_timeout)) as engine:
            stored = SqlStore(engine).load(node_uuid)
        found = [*stored.unknown, *stored.damage]
        if not found:
            return CheckFinding(PASS, f"this release reads all rows of node {node_uuid}")
        lines = found[:LISTED]
        if len(found) > LISTED:
            lines.append(f"and {len(found) - LISTED} more: rtagent db check lists them")
        result = FAIL if stored.unknown else WARN
        return CheckFinding(result, "\n".join(lines))

    def placement(self) -> CheckFinding:
        """Fail if Placement is unreachable or too old, or refuses the credentials. Warn if nothing
        is published to it, or the user may not reshape.
        """
        self._valid_settings()
        api = loading.load(self.client.conf)
        if api is None:
            return CheckFinding(
                WARN, "[placement] auth_type is unset: nothing is published to Placement"
            )
        lowest, highest = api.microversions()
        if not _version(lowest) <= _version(MICROVERSION) <= _version(highest):
            return CheckFinding(
                FAIL,
                f"Placement supports the microversions {lowest} to {highest}, but the agent needs"
                f" {MICROVERSION}",
            )
        if not api.may_reshape():
            return CheckFinding(
                WARN,
                "Placement does not allow the user of [placement] to reshape: give it the role"
                " service, which the agent needs if Placement has older records of this host",
            )
        return CheckFinding(PASS, f"Placement supports the microversion {MICROVERSION}")

    def _without_compute_id(self, path: Path, host: str) -> CheckFinding:
        """Fail if a node is recorded: a new uuid would split its claims between two nodes."""
        hostname = self._hypervisor.hostname if self._hypervisor else None
        for record in self._records or ():
            node = record.node
            same = node.host == host or node.hypervisor_hostname == hostname
            if same and not record.deleted_at:
                return CheckFinding(
                    FAIL,
                    f"{path} does not exist, but hypervisor {node.hypervisor_hostname} is recorded"
                    f" as node {node.uuid}: write that uuid into the file",
                )
        return CheckFinding(WARN, f"{path} does not exist: rtagentd starts as a new node")

    def _against_record(self, path: Path, node_uuid: str, settings: Settings) -> CheckFinding:
        records = self._records or ()
        recorded = next((r.node for r in records if r.node.uuid == node_uuid), None)
        if self._hypervisor is not None:
            hostname = self._hypervisor.hostname
        elif recorded is not None:
            hostname = recorded.hypervisor_hostname
        else:
            raise _NotChecked("libvirt is unreachable, and the node has no record")
        default = settings.default
        node = Node(
            uuid=node_uuid, host=default.host, hypervisor_hostname=hostname, host_ip=default.my_ip
        )
        claimant = enrollment.Claimant(
            node=node,
            writer=machine.writer(default.state_path),
            compute_id=str(path),
            service_down_time=default.service_down_time,
        )
        names = (node_uuid, hostname)
        rule = enrollment.enroll(claimant, enrollment.HeartbeatWatch(), time.monotonic())
        try:
            rule([r for r in records if {r.node.uuid, r.node.hypervisor_hostname} & set(names)])
        except TakeoverPending as pending:
            return CheckFinding(WARN, pending.message)
        if recorded is None:
            return CheckFinding(WARN, f"node {node_uuid} ({path}) has no record in the database")
        return CheckFinding(PASS, f"{hostname} is node {node_uuid}")

    def _valid_settings(self) -> Settings:
        if self._settings is None:
            raise _NotChecked("the configuration has mistakes")
        return self._settings


Check = Callable[[Checks], CheckFinding]


def made(check: Check, checks: Checks) -> CheckFinding:
    """Make one check. An expected error is a failure."""
    try:
        return check(checks)
    except _NotChecked as reason:
        return CheckFinding(WARN, f"not checked: {reason}")
    except RtAgentError as error:
        return CheckFinding(FAIL, error.message)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


#: The exit code of an error in the check itself, as that of oslo.upgradecheck.
UNEXPECTED_ERROR = 255
#: Characters of a line of details in the table, as in oslo.upgradecheck.
WIDTH = 60

COLUMNS = ("check", "result", "details")
CHECKS = (
    ("Configuration", Checks.configuration),
    ("Options", Checks.options),
    ("Database schema", Checks.database),
    ("Hypervisor", Checks.hypervisor),
    ("State directory and node identity", Checks.identity),
    ("Rows of the node", Checks.rows),
    ("Placement", Checks.placement),
)
_CODES = {PASS: Code.SUCCESS, WARN: Code.WARNING, FAIL: Code.FAILURE}


class _PlainResults(UpgradeCommands):
    """Prints the results as oslo.upgradecheck does."""

    def __init__(self, results: Sequence[tuple[str, Result]]) -> None:
        self._upgrade_checks = tuple(
            (title, (_PlainResults._made, {"result": result})) for title, result in results
        )

    def _made(self, result: Result) -> Result:
        return result

    def _get_details(self, upgrade_check_result: Result) -> str | None:
        """Wrap the details of the table, with a paragraph for each mistake."""
        lines = (upgrade_check_result.details or "").splitlines()
        wrapped = (textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines)
        return "\n".join(wrapped) or None


class UpgradeCheck(List):
    """Check whether this release can start on this host.

    Run it after the installation and `db sync`, before the daemon is started. It changes nothing.
    The exit code is that of the worst result: 0 success, 1 warning, 2 failure; 255 means that the
    check itself failed.
    """

    nouns = "checks"

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            super().run(parsed_args)
        except Exception:
            for line in ("the upgrade check failed:", *traceback.format_exc().splitlines()):
                self.app.LOG.error("%s", line)
            return UNEXPECTED_ERROR
        return self._code

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        checks = Checks(self.app.client)
        results = []
        for title, check in CHECKS:
            finding = made(check, checks)
            results.append((title, Result(_CODES[finding.result], finding.details or None)))
        with contextlib.redirect_stdout(io.StringIO()) as table:  # oslo.upgradecheck prints it
            self._code = _PlainResults(results).check()
        self._table = table.getvalue()
        return COLUMNS, [
            (title, str(UPGRADE_CHECK_MSG_MAP[result.code]), result.details or "")
            for title, result in results
        ]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        if parsed_args.formatter != "table" or parsed_args.columns:
            return super().produce_output(parsed_args, column_names, data)
        self.app.stdout.write(safe(self._table, "text"))
        return 0
