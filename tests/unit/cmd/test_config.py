"""rtagent config, without a daemon."""

from pathlib import Path

import pytest

from rtagent.cmd.exit_codes import Exit
from rtagent.rpc.trust.credentials import PrivateKey
from tests.functional.cli.shell import configured, run
from tests.support.trust import KeyFiles


@pytest.fixture
def check(tmp_path):
    return lambda text: configured(tmp_path, text)("config", "check")


def test_a_valid_configuration_is_reported_as_good(check, tmp_path):
    outcome = check("[claims]\nclaim_expiry_time = 60\n")

    assert outcome == (0, f"The configuration is good ({tmp_path}/rtagent.conf).\n", "")


def test_every_mistake_has_a_line(check):
    claims, api = "[claims]\nclaim_expiry_time = 0\n", "[api]\naddress = here\n"
    outcome = check(f"{claims}{api}[database]\nconnection = oracle://x:secret@y\n")

    assert (outcome.code, outcome.out) == (Exit.ERROR, "")
    options = [line.partition(" = ")[0] for line in outcome.err.splitlines()]
    names = ("[claims] claim_expiry_time", "[api] address", "[database] connection")
    assert options == [f"rtagent: {name}" for name in names]
    assert "secret" not in outcome.err


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("[oslo_messaging_rabbit] kombu_compression", "gzip", "gzip: must be unset, because"),
        ("[DEFAULT] transport_url", "rabbit://me:pa$word@host/", "(unresolved): no such option"),
        ("[DEFAULT] transport_url", "rabbit://me:secret@host:port/", "rabbit://...: must be a URL"),
        ("[DEFAULT] debug", "perhaps", "perhaps: Unexpected boolean value 'perhaps'"),
        ("[placement] timeout", "soon\nauth_type = none", "soon: could not convert string"),
        ("[libvirt] images_type", "rbd", "rbd: is an option of Nova that the agent does not have"),
        ("[database] connection", "nonsense", "nonsense://...: must be an SQLAlchemy URL"),
        ("[database] connection", "sqlite://", "sqlite://...: must name a file"),
        ("[database] connection", "mysql+aiomysql://me:secret@host/x", "mysql+aiomysql://...: its"),
        ("[filter_scheduler] enabled_filters", "NoSuchRule", "NoSuchRule: is not installed"),
        ("[filter_scheduler] weight_classes", "NoSuchRule", "NoSuchRule: is not installed"),
    ],
)
def test_a_mistake_names_option_value_and_rule_without_secrets(check, option, value, rule):
    group, name = option.split()
    outcome = check(f"{group}\n{name} = {value}\n")

    assert (outcome.code, outcome.err.count("\n")) == (Exit.ERROR, 1)
    assert outcome.err.startswith(f"rtagent: {option} = {rule}")
    assert "secret" not in outcome.err


def test_an_option_of_nova_does_not_hide_the_other_mistakes(check):
    outcome = check("[libvirt]\nimages_type = rbd\n[claims]\nclaim_expiry_time = 0\n")
    options = [line.partition(" = ")[0] for line in outcome.err.splitlines()]
    assert options == ["rtagent: [libvirt] images_type", "rtagent: [claims] claim_expiry_time"]


def test_an_unknown_option_is_a_warning(check):
    outcome = check("[claims]\nexpiry = 60\n")

    assert outcome.code == 0
    assert "[claims] expiry is not an option of the agent" in outcome.err


def test_the_sample_configuration_is_printed():
    sample = Path(__file__).parents[3] / "etc" / "rtagent" / "rtagent.conf.sample"

    assert run("config", "generate") == (0, sample.read_text(), "")


@pytest.mark.parametrize(
    "option, key, rule",
    [
        ("require_signature = true", None, "require_signature = True: needs keys_file"),
        ("verify_replies = true", None, "verify_replies = True: needs keys_file"),
        ("keys_file = {0}/keys.json\nsigning_key = {0}/nova.jwk", "nova", "is not the private"),
    ],
    ids=["required", "verified", "other-key"],
)
def test_wrong_keys_are_mistakes(check, tmp_path, option, key, rule):
    files = KeyFiles(tmp_path)
    if key is not None:
        files.add(key, "conductor")
        files.file(key).write_text(PrivateKey.generate(key).text())
    outcome = check(f"[rpc]\n{option.format(tmp_path)}\n")
    assert outcome.code == Exit.ERROR
    assert rule in outcome.err
    assert outcome.err.startswith("rtagent: [rpc] ")


def test_good_keys_are_good(check, tmp_path):
    files = KeyFiles(tmp_path)
    files.add("nova", "conductor")
    options = files.options("nova", require_signature=True, verify_replies=True)
    lines = "".join(f"{name} = {value}\n" for name, value in options.items())
    assert check(f"[rpc]\n{lines}").code == 0
