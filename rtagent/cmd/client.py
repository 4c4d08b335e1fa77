"""Client: the configuration, the reads and the calls of a command. Each is opened on first use."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from rtagent.api.address import parse_client
from rtagent.api.client import REMEDY, ReadClient, Reader
from rtagent.conf import load
from rtagent.conf.settings import Settings
from rtagent.errors import ConfigError, IdentityError, InvalidRequest
from rtagent.identity.machine import ComputeId

if TYPE_CHECKING:
    from rtagent.cmd.offline import OfflineDatabase, OfflineReader
    from rtagent.cmd.rpc_caller import RpcCaller

#: The environment variables with a token for a TCP address, or with the file that has it; and with
#: the file of the certificates that sign the agents'.
TOKEN, TOKEN_FILE = "RTAGENT_TOKEN", "RTAGENT_TOKEN_FILE"
CA_FILE = "RTAGENT_CA_FILE"

SCHEDULER_REMEDY = "is rtagent-scheduler running on this machine?"


class Client:
    """:ivar options: the global options of the command line."""

    def __init__(self, options: argparse.Namespace, log: logging.Logger) -> None:
        self.options, self._log = options, log

    @cached_property
    def conf(self) -> cfg.ConfigOpts:
        """The parsed configuration. :raises ExceptionGroup: of `ConfigError`."""
        args = [f"--config-file={name}" for name in self.options.config_file]
        args += [f"--config-dir={name}" for name in self.options.config_dir]
        return load.parse(cfg.ConfigOpts(), args, "rtagent")

    @cached_property
    def settings(self) -> Settings:
        """The settings of the configuration, without provider files.

        :raises ExceptionGroup: of `ConfigError`.
        """
        return load.read_options(self.conf)

    @cached_property
    def reader(self) -> Reader | OfflineReader:
        """The agent's read API; over RPC with ``--host``; the database with ``--offline``."""
        if self.options.offline and self.options.host is None:
            from rtagent.cmd.offline import OfflineReader

            return OfflineReader(self.database.states(), self.database.flavors)
        return self._agent

    @cached_property
    def _agent(self) -> Reader:
        """The read API of the agent, over RPC with ``--host``."""
        if self.options.host is None:
            return self._client(self.options.socket or self.settings.api.address, REMEDY)
        from rtagent.cmd.rpc_caller import RpcReader

        for name in ("offline", "socket"):
            if getattr(self.options, name):
                self.refuse_host(f"asks an agent over RPC, and --{name} does not: use one of them")
        return RpcReader(self.caller)

    def _client(self, address: str, remedy: str) -> ReadClient:
        """Return the client of an address, with the token of the user, if there is one."""
        cafile = os.environ.get(CA_FILE)
        where = parse_client(address, cafile)
        return ReadClient(where, remedy=remedy, token=_token())

    def read(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """Return the document at a path of the read API. Warn if it is stale.

        :raises AgentUnreachable: the agent does not answer. :raises RtAgentError: its error.
        """
        document = self.reader.get(*segments, **filters)
        if document.get("stale"):
            self._log.warning("the agent cannot reach its database: this may be out of date")
        return document

    def read_events(self, filters: Mapping[str, str]) -> str:
        """Return the text at ``/events``. With ``--offline``, it is made from the database.

        :raises AgentUnreachable: the agent does not answer. :raises RtAgentError: its error.
        """
        if self.options.offline and self.options.host is None:
            return self.database.event_text(filters)
        return self._agent.text("events", **filters)

    @cached_property
    def database(self) -> OfflineDatabase:
        """The daemon's database, whether the daemon runs or not.

        :raises RtAgentError: it cannot be read.
        :raises ExceptionGroup: of `ConfigError`.
        """
        from rtagent.cmd.offline import OfflineDatabase

        self.refuse_host("the database is read by this machine, not by an agent: leave it out")
        return OfflineDatabase(load.read(self.conf))

    @cached_property
    def caller(self) -> RpcCaller:
        """The RPC client, for commands that change something."""
        from rtagent.cmd.rpc_caller import agent_caller

        default, host = self.settings.default, self.options.host
        node_uuid = _node_uuid(default.state_path) if host is None else None
        return agent_caller(self.conf, host or default.host, node_uuid, self.options.timeout)

    def refuse_host(self, rule: str) -> None:
        """:raises InvalidRequest: ``--host`` is given, which the command cannot use."""
        if self.options.host is not None:
            raise InvalidRequest.at("this command", "--host", rule)

    def _refuse_offline(self, rule: str) -> None:
        """:raises InvalidRequest: ``--offline`` is given, which the command cannot use."""
        if self.options.offline:
            raise InvalidRequest.at("this command", "--offline", rule)

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of `rtagent.rpc.client.AgentAPI` and return its reply.

        :raises RtAgentError: as in `RpcCaller.call`.
        """
        self._refuse_offline("reads a database, and an agent does this: leave it out")
        return self.caller.call(method, *arguments, **named)

    # -- the scheduler ----------------------------------------------------------------------------

    def read_scheduler(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """Return the document at a path of the scheduler's read API. Warn if it is incomplete.

        :raises AgentUnreachable: the scheduler does not answer. :raises RtAgentError: its error.
        """
        self.refuse_host("names an agent, and the scheduler answers this: leave it out")
        self._refuse_offline("reads a database, which does not have this: leave it out")
        address = self.options.socket
        if address is None:
            address = self.settings.scheduler.api_address
        document = self._client(address, SCHEDULER_REMEDY).get(*segments, **filters)
        if not document["complete"]:
            self._log.warning("the scheduler does not know all hosts yet")
        return document

    @cached_property
    def scheduler(self) -> RpcCaller:
        """The RPC client of the schedulers."""
        from rtagent.cmd.rpc_caller import scheduler_caller

        return scheduler_caller(self.conf, self.options.timeout)

    def call_scheduler(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of `rtagent.rpc.client.SchedulerAPI` and return its reply.

        :raises RtAgentError: as in `RpcCaller.call`.
        """
        self.refuse_host("names an agent, and a scheduler does this: leave it out")
        self._refuse_offline("reads a database, and a scheduler does this: leave it out")
        return self.scheduler.call(method, *arguments, **named)

    def close(self) -> None:
        """Close the RPC connections that were opened."""
        for name in ("caller", "scheduler"):
            if name in self.__dict__:
                getattr(self, name).close()


def _token() -> str | None:
    """The token of the environment. :raises ConfigError: its file cannot be read."""
    if (token := os.environ.get(TOKEN)) or not (path := os.environ.get(TOKEN_FILE)):
        return token or None
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeError) as exc:
        rule = f"cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise ConfigError(group="environment", option=TOKEN_FILE, value=path, rule=rule) from exc


def _node_uuid(state_path: str) -> str | None:
    """The uuid of the node of a state directory, or None if this machine does not have it or the
    user may not read it."""
    try:
        return ComputeId(state_path).read()
    except IdentityError:
        return None
