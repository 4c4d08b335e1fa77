"""rtagentd: the daemon of a hypervisor."""

import sys
from collections.abc import Sequence

from oslo_config import cfg

from rtagent.cmd import daemon
from rtagent.service.agent import Agent
from rtagent.service.configuration import Configuration

PROG = "rtagentd"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon and return its exit code."""
    return daemon.main(PROG, argv, _configure, Agent)


def _configure(conf: cfg.ConfigOpts, args: Sequence[str]) -> Configuration:
    return Configuration(conf, PROG, args)


if __name__ == "__main__":
    sys.exit(main())
