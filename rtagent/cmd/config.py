"""rtagent config: the daemon's configuration, judged and documented."""

from __future__ import annotations

import argparse

from oslo_config import cfg, generator

from rtagent.cmd.listing import Act
from rtagent.conf import reference
from rtagent.conf.unknown import NAMESPACES, unknown
from rtagent.service import assembly

WIDTH = 100


class ConfigCheck(Act):
    """Judge the configuration as the daemon would, without starting anything"""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        conf = self.world.conf
        for sentence in unknown(conf):
            self.app.LOG.warning(sentence)
        for doubt in assembly.checked(conf).doubts():
            self.app.LOG.warning(doubt)
        files = ", ".join(map(str, conf.config_file or ())) or "no file: the defaults"
        self.app.stdout.write(f"The configuration is good ({files}).\n")


class ConfigGenerate(Act):
    """Print a sample configuration: every option with its help and default"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--reference",
            action="store_true",
            help="rtagent's own options as a page of reStructuredText instead.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.reference:
            self.app.stdout.write(reference.render())
            return
        conf = cfg.ConfigOpts()
        generator.register_cli_opts(conf)
        namespaces = [word for name in NAMESPACES for word in ("--namespace", name)]
        conf([*namespaces, "--wrap-width", str(WIDTH)])
        generator.generate(conf, self.app.stdout)
