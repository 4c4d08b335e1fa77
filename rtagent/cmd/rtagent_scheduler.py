"""rtagent-scheduler: the daemon that selects hosts."""

import sys
from collections.abc import Callable, Iterable, Sequence

from oslo_config import cfg

from rtagent.api.address import parse
from rtagent.api.guard import Guard
from rtagent.cmd import daemon
from rtagent.conf.settings import Settings
from rtagent.db.engine import open_engine
from rtagent.placement import loading
from rtagent.rpc.transport import get_transport
from rtagent.service import scheduler_assembly
from rtagent.service.configuration import Configuration, Rules
from rtagent.service.scheduler import SchedulerService, load_rules
from rtagent.service.trust import check_keys, effective_rules

PROG = "rtagent-scheduler"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon and return its exit code."""
    return daemon.main(PROG, argv, _configure, SchedulerService)


def _configure(conf: cfg.ConfigOpts, args: Sequence[str]) -> Configuration:
    return Configuration(conf, PROG, args, Rules(once=(), accept=_accept))


def _accept(conf: cfg.ConfigOpts, settings: Settings) -> Iterable[Callable[[], object]]:
    return (
        lambda: _guard(settings),
        lambda: open_engine(scheduler_assembly.url(settings), 1),
        lambda: load_rules(settings),
        lambda: loading.load(conf),
        lambda: check_keys(settings),
        lambda: effective_rules(conf),
        lambda: get_transport(conf).cleanup(),
    )


def _guard(settings: Settings) -> Guard:
    """:raises ConfigError: the address of the read API cannot be used."""
    named = "scheduler", "api_address"
    return Guard(parse(settings.scheduler.api_address, *named), settings.api, *named)


if __name__ == "__main__":
    sys.exit(main())
