"""The options as a whole, and the sample file that is generated from them."""

import io
from pathlib import Path

from oslo_config import cfg, generator

from rtagent.conf import load

ETC = Path(__file__).resolve().parents[3] / "etc" / "rtagent"


def test_every_option_has_a_help_text():
    for group, options in load.own():
        for option in options:
            assert option.help and len(option.help) > 40, f"[{group}] {option.name}"


def test_generator_lists_each_option_once():
    for group, options in load.list_opts():
        names = [option.dest for option in options]
        assert len(names) == len(set(names)), group


def test_sample_file_is_up_to_date():
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf(["--config-file", str(ETC / "config-generator.conf")])
    made = io.StringIO()

    generator.generate(conf, made)

    assert made.getvalue() == (ETC / "rtagent.conf.sample").read_text(), (
        "run oslo-config-generator --config-file etc/rtagent/config-generator.conf"
    )
