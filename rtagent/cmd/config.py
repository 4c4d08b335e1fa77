"""rtagent config: check and document the configuration of the daemon."""

import argparse
import io
from collections.abc import Callable, Iterable

from oslo_config import cfg, generator

from rtagent.cmd.base import Row, Text
from rtagent.conf.settings import Settings
from rtagent.conf.unknown import NAMESPACES, not_honoured, unknown
from rtagent.service.configuration import AGENT, Rules, checked
from rtagent.service.scheduler import load_rules
from rtagent.service.trust import effective_rules

#: Characters of a line of the sample.
WIDTH = 100


def _accept(conf: cfg.ConfigOpts, settings: Settings) -> Iterable[Callable[[], object]]:
    return (*AGENT.accept(conf, settings), lambda: load_rules(settings))


#: The rules of rtagentd and of rtagent-scheduler. They may share a file.
BOTH = Rules(once=(), accept=_accept)


class ConfigCheck(Text):
    """Check the configuration as the daemons do, without starting anything.

    Filters and weighers of the scheduler are loaded, also on a host that runs only an agent. An
    option of Nova that would change what the host offers, and that the agent does not have, is a
    mistake here, although the daemon starts with it.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        conf = self.app.client.conf
        ignored = list(not_honoured(conf))
        for warning in unknown(conf):
            self.app.LOG.warning(warning)
        try:
            settings = checked(conf, rules=BOTH)
        except ExceptionGroup as others:
            raise others.derive([*ignored, *others.exceptions]) from others
        if ignored:
            raise ExceptionGroup("options of Nova that are not honoured", ignored)
        for warning in (*settings.doubts(), *effective_rules(conf).doubts):
            self.app.LOG.warning(warning)
        files = list(map(str, conf.config_file or ()))
        shown = ", ".join(files) or "no file: the defaults"
        return ("files", "message"), (files, f"The configuration is good ({shown}).")


class ConfigGenerate(Text):
    """Print a sample configuration: every option with its help and its default."""

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        conf, sample = cfg.ConfigOpts(), io.StringIO()
        generator.register_cli_opts(conf)
        namespaces = [word for name in NAMESPACES for word in ("--namespace", name)]
        conf([*namespaces, "--wrap-width", str(WIDTH)])
        generator.generate(conf, sample)
        return ("sample",), (sample.getvalue(),)
