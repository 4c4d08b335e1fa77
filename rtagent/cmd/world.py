"""World: what commands read and write, opened when a command first needs it."""

from __future__ import annotations

import argparse
import logging
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from rtagent.api.address import parse
from rtagent.api.client import ReadClient
from rtagent.cmd.reading import Reader
from rtagent.conf import load, settings
from rtagent.conf.settings import Settings

if TYPE_CHECKING:
    from rtagent.cmd.calling import Caller
    from rtagent.cmd.database import Database

#: An environment variable that stands in for --config-file.
CONFIG_FILE = "RTAGENT_CONFIG_FILE"


class World:
    """:ivar options: the global options of the command line."""

    def __init__(self, options: argparse.Namespace, log: logging.Logger) -> None:
        self.options, self._log = options, log

    @cached_property
    def conf(self) -> cfg.ConfigOpts:
        """The configuration, parsed. :raises ExceptionGroup: of `ConfigError`."""
        named = self.options.config_file or os.environ.get(CONFIG_FILE, "").split()
        args = [f"--config-file={name}" for name in named]
        args += [f"--config-dir={name}" for name in self.options.config_dir]
        return load.parse(cfg.ConfigOpts(), args, "rtagent")

    @cached_property
    def settings(self) -> Settings:
        """The configuration, read. :raises ExceptionGroup: of `ConfigError`."""
        return settings.read(self.conf)

    @cached_property
    def reader(self) -> Reader:
        """Whom reading commands ask."""
        if self.options.offline:
            from rtagent.cmd.offline import OfflineReader

            return OfflineReader(self.database.states())
        return ReadClient(parse(self.options.socket or self.settings.api.address))

    def read(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """The document at a path of the read API; says so if it may be behind.

        :raises AgentUnreachable: RtAgentError:
        """
        document = self.reader.get(*segments, **filters)
        if document.get("stale"):
            self._log.warning("the agent cannot reach its database: this may be behind")
        return document

    @cached_property
    def database(self) -> Database:
        """The daemon's database, whether the daemon runs or not. :raises RtAgentError:"""
        from rtagent.cmd.database import Database

        return Database(self.settings)

    @cached_property
    def caller(self) -> Caller:
        """Whom commands that change something call."""
        from rtagent.cmd.calling import Caller

        return Caller(self.conf, self.settings.default.host, self.options.timeout)

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """The answer of a method of `rtagent.rpc.client.AgentAPI`. :raises RtAgentError:"""
        return self.caller.call(method, *arguments, **named)

    def close(self) -> None:
        """Let go of what was opened."""
        if "caller" in self.__dict__:
            self.caller.close()
