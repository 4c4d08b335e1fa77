"""Client: the configuration, the reads and the calls of a command. Each is opened on first use."""

from __future__ import annotations

import argparse
import logging
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from oslo_config import cfg

from rtagent.api.address import parse
from rtagent.api.client import ReadClient
from rtagent.conf import load, settings
from rtagent.conf.settings import Settings
from rtagent.errors import IdentityError
from rtagent.identity.machine import ComputeId

if TYPE_CHECKING:
    from rtagent.cmd.offline import OfflineDatabase
    from rtagent.cmd.rpc_caller import RpcCaller

#: The environment variable that replaces --config-file.
CONFIG_FILE = "RTAGENT_CONFIG_FILE"


class Reader(Protocol):
    """A source of the read API's documents: `ReadClient` or `OfflineReader`."""

    def get(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """Return the document at a path. :raises RtAgentError:"""
        ...


class Client:
    """:ivar options: the global options of the command line."""

    def __init__(self, options: argparse.Namespace, log: logging.Logger) -> None:
        self.options, self._log = options, log

    @cached_property
    def conf(self) -> cfg.ConfigOpts:
        """The parsed configuration. :raises ExceptionGroup: of `ConfigError`."""
        files = self.options.config_file or os.environ.get(CONFIG_FILE, "").split()
        args = [f"--config-file={name}" for name in files]
        args += [f"--config-dir={name}" for name in self.options.config_dir]
        return load.parse(cfg.ConfigOpts(), args, "rtagent")

    @cached_property
    def settings(self) -> Settings:
        """The settings of the configuration, without provider files.

        :raises ExceptionGroup: of `ConfigError`.
        """
        return settings.read_options(self.conf)

    @cached_property
    def reader(self) -> Reader:
        """The agent's read API, or the database with ``--offline``."""
        if self.options.offline:
            from rtagent.cmd.offline import OfflineReader

            return OfflineReader(self.database.states())
        return ReadClient(parse(self.options.socket or self.settings.api.address))

    def read(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """Return the document at a path of the read API. Warn if it is stale.

        :raises AgentUnreachable: the agent does not answer. :raises RtAgentError: its error.
        """
        document = self.reader.get(*segments, **filters)
        if document.get("stale"):
            self._log.warning("the agent cannot reach its database: this may be out of date")
        return document

    @cached_property
    def database(self) -> OfflineDatabase:
        """The daemon's database, whether the daemon runs or not.

        :raises RtAgentError: it cannot be read.
        :raises ExceptionGroup: of `ConfigError`.
        """
        from rtagent.cmd.offline import OfflineDatabase

        return OfflineDatabase(settings.read(self.conf))

    @cached_property
    def caller(self) -> RpcCaller:
        """The RPC client, for commands that change something."""
        from rtagent.cmd.rpc_caller import RpcCaller

        default = self.settings.default
        return RpcCaller(
            self.conf, default.host, _node_uuid(default.state_path), self.options.timeout
        )

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of `rtagent.rpc.client.AgentAPI` and return its reply.

        :raises RtAgentError: as in `RpcCaller.call`.
        """
        return self.caller.call(method, *arguments, **named)

    def close(self) -> None:
        """Close the RPC connection if one was opened."""
        if "caller" in self.__dict__:
            self.caller.close()


def _node_uuid(state_path: str) -> str | None:
    """The uuid of the node of a state directory, or None if this machine does not have it or the
    user may not read it."""
    try:
        return ComputeId(state_path).read()
    except IdentityError:
        return None
