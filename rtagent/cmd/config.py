"""rtagent config: check and document the configuration of the daemon."""

from __future__ import annotations

import argparse
import io

from oslo_config import cfg, generator

from rtagent.cmd.base import Row, Text
from rtagent.conf.unknown import NAMESPACES, unknown
from rtagent.service.configuration import checked

#: Characters of a line of the sample.
WIDTH = 100


class ConfigCheck(Text):
    """Check the configuration as the daemon does, without starting anything."""

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        conf = self.app.client.conf
        for warning in unknown(conf):
            self.app.LOG.warning(warning)
        for warning in checked(conf).doubts():
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
