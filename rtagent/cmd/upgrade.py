"""rtagent upgrade: whether this release can start on this host, before the daemon is started."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import textwrap
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from oslo_upgradecheck.upgradecheck import UPGRADE_CHECK_MSG_MAP, Code, Result, UpgradeCommands

from rtagent.cmd.base import List, Rows
from rtagent.cmd.cells import safe
from rtagent.cmd.client import Client
from rtagent.conf.settings import Settings
from rtagent.conf.unknown import deprecated, not_honoured, unknown
from rtagent.db import durability, migrate
from rtagent.db.engine import open_existing
from rtagent.db.node_records import SqlNodes
from rtagent.db.store import SqlStore
from rtagent.errors import RtAgentError, StoreUnavailable, TakeoverPending
from rtagent.identity import enrollment, machine
from rtagent.model.node import Node, NodeRecord
from rtagent.placement import loading
from rtagent.placement.client import MICROVERSION
from rtagent.ports import HostIdentity, NullReporter
from rtagent.service import assembly
from rtagent.service.configuration import checked

#: The exit code of an error in the check itself, as that of oslo.upgradecheck.
UNEXPECTED_ERROR = 255
#: Characters of a line of details in the table, as in oslo.upgradecheck.
WIDTH = 60
#: Damaged rows that are listed, at most.
LISTED = 10

COLUMNS = ("check", "result", "details")


class _NotChecked(Exception):
    """A check cannot be made because another one failed."""


class UpgradeChecks(UpgradeCommands):
    """The checks in their order. Each one reads only; nothing is created or changed.

    :ivar results: the title and the result of each check that was made.
    """

    def __init__(self, client: Client) -> None:
        self.results: list[tuple[str, Result]] = []
        self._client = client
        self._settings: Settings | None = None
        self._records: Sequence[NodeRecord] | None = None
        self._node_uuid: str | None = None
        self._hypervisor: HostIdentity | None = None
        self._upgrade_checks = tuple(
            (title, (UpgradeChecks.recorded, {"title": title, "check": check}))
            for title, check in (
                ("Configuration", UpgradeChecks.configuration),
                ("Options", UpgradeChecks.options),
                ("Database schema", UpgradeChecks.database),
                ("Hypervisor", UpgradeChecks.hypervisor),
                ("State directory and node identity", UpgradeChecks.identity),
                ("Rows of the node", UpgradeChecks.rows),
                ("Placement", UpgradeChecks.placement),
            )
        )

    def configuration(self) -> Result:
        """Fail with every mistake in the configuration."""
        try:
            self._settings = checked(self._client.conf)
        except ExceptionGroup as group:
            return Result(Code.FAILURE, "\n".join(map(str, group.exceptions)))
        return Result(Code.SUCCESS)

    def options(self) -> Result:
        """Fail with options of Nova that the agent would ignore. Warn about deprecated and unknown
        options, and about questionable values.
        """
        settings, conf = self._valid_settings(), self._client.conf
        if ignored := list(not_honoured(conf)):
            return Result(Code.FAILURE, "\n".join(map(str, ignored)))
        warnings = [*deprecated(conf), *unknown(conf), *settings.doubts()]
        return Result(Code.WARNING, "\n".join(warnings)) if warnings else Result(Code.SUCCESS)

    def database(self) -> Result:
        """Fail if this release may not write to the schema, or the database may lose what is
        committed. Warn if there is no database yet.
        """
        options = self._valid_settings().database
        try:
            engine = open_existing(options.connection, options.operation_timeout)
        except StoreUnavailable as error:
            self._records = ()
            return Result(Code.WARNING, error.message)
        try:
            schema = migrate.check(engine)
            if options.require_durability:
                durability.require(engine)
            self._records = SqlNodes(engine).records()
        finally:
            engine.dispose()
        return Result(Code.SUCCESS, f"the schema is {schema}")

    def hypervisor(self) -> Result:
        """Fail if libvirt is unreachable."""
        settings = self._valid_settings()
        hypervisor = assembly.hypervisor(settings, NullReporter())
        try:
            self._hypervisor = hypervisor.identity()
        finally:
            hypervisor.stop()
        return Result(Code.SUCCESS, f"{settings.libvirt.uri} is {self._hypervisor.hostname}")

    def identity(self) -> Result:
        """Fail if the state directory or the file compute_id does not fit the node's record.

        The rule is that which the daemon applies when it starts.
        """
        settings = self._valid_settings()
        directory = Path(settings.default.state_path)
        if not directory.is_dir():
            return Result(
                Code.WARNING, f"{directory} does not exist: rtagentd creates it at its first start"
            )
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
            return Result(Code.FAILURE, f"{directory} is not readable and writable for this user")
        compute_id = machine.ComputeId(str(directory))
        node_uuid = self._node_uuid = compute_id.read()
        if self._records is None:
            raise _NotChecked("the database cannot be read")
        if node_uuid is None:
            return self._without_compute_id(compute_id.path, settings.default.host)
        return self._against_record(compute_id.path, node_uuid, settings)

    def rows(self) -> Result:
        """Fail if this release would grant no claims, because it cannot read what the node has.
        Warn about other damaged rows.
        """
        options, node_uuid = self._valid_settings().database, self._node_uuid
        if self._records is None:
            raise _NotChecked("the database cannot be read")
        if node_uuid is None or not any(r.node.uuid == node_uuid for r in self._records):
            raise _NotChecked("the host has no record in the database")
        engine = open_existing(options.connection, options.operation_timeout)
        try:
            stored = SqlStore(engine).load(node_uuid)
        finally:
            engine.dispose()
        found = [*stored.unknown, *stored.damage]
        if not found:
            return Result(Code.SUCCESS, f"this release reads all rows of node {node_uuid}")
        lines = found[:LISTED]
        if len(found) > LISTED:
            lines.append(f"and {len(found) - LISTED} more: rtagent db check lists them")
        code = Code.FAILURE if stored.unknown else Code.WARNING
        return Result(code, "\n".join(lines))

    def placement(self) -> Result:
        """Fail if Placement is unreachable or too old, or refuses the credentials. Warn if nothing
        is published to it, or the user may not reshape.
        """
        self._valid_settings()
        api = loading.load(self._client.conf)
        if api is None:
            return Result(
                Code.WARNING, "[placement] auth_type is unset: nothing is published to Placement"
            )
        lowest, highest = api.microversions()
        if not _version(lowest) <= _version(MICROVERSION) <= _version(highest):
            return Result(
                Code.FAILURE,
                f"Placement supports the microversions {lowest} to {highest}, but the agent needs"
                f" {MICROVERSION}",
            )
        if not api.may_reshape():
            return Result(
                Code.WARNING,
                "Placement does not allow the user of [placement] to reshape: give it the role"
                " service, which the agent needs if Placement has older records of this host",
            )
        return Result(Code.SUCCESS, f"Placement supports the microversion {MICROVERSION}")

    def _without_compute_id(self, path: Path, host: str) -> Result:
        """Fail if a node is recorded: a new uuid would split its claims between two nodes."""
        hostname = self._hypervisor.hostname if self._hypervisor else None
        for record in self._records or ():
            node = record.node
            same = node.host == host or node.hypervisor_hostname == hostname
            if same and not record.deleted_at:
                return Result(
                    Code.FAILURE,
                    f"{path} does not exist, but hypervisor {node.hypervisor_hostname} is recorded"
                    f" as node {node.uuid}: write that uuid into the file",
                )
        return Result(Code.WARNING, f"{path} does not exist: rtagentd starts as a new node")

    def _against_record(self, path: Path, node_uuid: str, settings: Settings) -> Result:
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
            uuid=node_uuid,
            host=default.host,
            hypervisor_hostname=hostname,
            host_ip=default.my_ip,
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
            return Result(Code.WARNING, pending.message)
        if recorded is None:
            return Result(Code.WARNING, f"node {node_uuid} ({path}) has no record in the database")
        return Result(Code.SUCCESS, f"{hostname} is node {node_uuid}")

    def _valid_settings(self) -> Settings:
        if self._settings is None:
            raise _NotChecked("the configuration has mistakes")
        return self._settings

    def recorded(self, title: str, check: Callable[[UpgradeChecks], Result]) -> Result:
        """Make one check. An expected error is a failure."""
        try:
            result = check(self)
        except _NotChecked as reason:
            result = Result(Code.WARNING, f"not checked: {reason}")
        except RtAgentError as error:
            result = Result(Code.FAILURE, error.message)
        self.results.append((title, result))
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
        checks = UpgradeChecks(self.app.client)
        with contextlib.redirect_stdout(io.StringIO()) as table:  # oslo.upgradecheck prints it
            self._code = checks.check()
        self._table = table.getvalue()
        return COLUMNS, [
            (title, str(UPGRADE_CHECK_MSG_MAP[result.code]), result.details or "")
            for title, result in checks.results
        ]

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Any,
    ) -> int:
        if parsed_args.formatter != "table" or parsed_args.columns:
            return super().produce_output(parsed_args, column_names, data)
        self.app.stdout.write(safe(self._table, "text"))
        return 0


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
