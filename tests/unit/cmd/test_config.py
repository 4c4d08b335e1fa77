"""rtagent config, without a daemon."""

from pathlib import Path

import pytest

from rtagent.cmd.exit_codes import Exit
from rtagent.rpc.trust.private_key import PrivateKey
from tests.functional.cli.shell import Outcome, run
from tests.support.trust import KeyFiles


@pytest.fixture
def check(tmp_path):
    def check_text(text: str) -> Outcome:
        (tmp_path / "rtagent.conf").write_text(text)
        return run("--config-file", str(tmp_path / "rtagent.conf"), "config", "check")

    return check_text


def test_a_valid_configuration_is_reported_as_good(check, tmp_path):
    outcome = check("[claims]\nclaim_expiry_time = 60\n")

    assert outcome == (0, f"The configuration is good ({tmp_path}/rtagent.conf).\n", "")


def test_every_mistake_has_a_line(check):
    outcome = check("[claims]\nclaim_expiry_time = 0\n[api]\naddress = here\n")

    assert outcome.code == Exit.ERROR
    assert outcome.out == ""
    assert outcome.err.splitlines() == [
        "rtagent: [claims] claim_expiry_time = 0: Should be greater than or equal to 10",
        "rtagent: [api] address = here: must be an absolute path or 127.0.0.1:PORT (or another IP)",
    ]


def test_mistakes_that_an_adapter_finds_have_a_line(check):
    outcome = check("[api]\naddress = here\n[database]\nconnection = oracle://x:secret@y\n")

    assert outcome.code == Exit.ERROR
    assert [line.partition(":")[2].split(" = ")[0] for line in outcome.err.splitlines()] == [
        " [api] address",
        " [database] connection",
    ]
    assert "secret" not in outcome.err


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "[oslo_messaging_rabbit]\nkombu_compression = gzip\n",
            "[oslo_messaging_rabbit] kombu_compression = gzip: must be unset, because agents refuse"
            " compressed messages",
        ),
        (
            "[DEFAULT]\ntransport_url = rabbit://me:pa$word@host/\n",
            "[DEFAULT] transport_url = (unresolved): no such option word in group [DEFAULT]",
        ),
        (
            "[DEFAULT]\ndebug = perhaps\n",
            "[DEFAULT] debug = perhaps: Unexpected boolean value 'perhaps'",
        ),
        (
            "[placement]\nauth_type = none\ntimeout = soon\n",
            "[placement] timeout = soon: could not convert string to float: 'soon'",
        ),
    ],
)
def test_options_of_libraries_are_checked(check, text, mistake):
    outcome = check(text)

    assert (outcome.code, outcome.err) == (Exit.ERROR, f"rtagent: {mistake}\n")


@pytest.mark.parametrize("option", ["enabled_filters", "weight_classes"])
def test_filters_and_weighers_are_loaded(check, option):
    outcome = check(f"[filter_scheduler]\n{option} = NoSuchRule\n")

    assert outcome.code == Exit.ERROR
    assert f"[filter_scheduler] {option} = NoSuchRule: is not installed" in outcome.err


@pytest.mark.parametrize(
    ("connection", "rule"),
    [
        ("nonsense", "must be an SQLAlchemy URL"),
        ("sqlite://", "must name a file"),
        ("mysql+aiomysql://me:secret@host/x", "its driver is missing"),
    ],
)
def test_an_invalid_database_url_is_a_mistake(check, connection, rule):
    outcome = check(f"[database]\nconnection = {connection}\n")

    scheme = connection.partition("://")[0]
    assert outcome.err.startswith(f"rtagent: [database] connection = {scheme}://...: {rule}")
    assert (outcome.code, outcome.err.count("\n")) == (Exit.ERROR, 1)
    assert "secret" not in outcome.err


def test_an_invalid_broker_port_is_a_mistake(check):
    outcome = check("[DEFAULT]\ntransport_url = rabbit://me:secret@host:port/\n")

    assert outcome.err.startswith("rtagent: [DEFAULT] transport_url = rabbit://...: must be a URL")
    assert (outcome.code, outcome.err.count("\n")) == (Exit.ERROR, 1)
    assert "secret" not in outcome.err


def test_an_unknown_option_is_a_warning(check):
    outcome = check("[claims]\nexpiry = 60\n")

    assert outcome.code == 0
    assert "[claims] expiry is not an option of the agent" in outcome.err


def test_a_questionable_value_is_a_warning(check):
    outcome = check("[devices]\nenabled_mdev_types = nvidia-35, nvidia-36\n")

    assert outcome.code == 0
    assert "[mdev_nvidia-35]: it has no device_addresses, so only nvidia-35" in outcome.err


def test_the_sample_configuration_is_printed():
    sample = Path(__file__).parents[3] / "etc" / "rtagent" / "rtagent.conf.sample"

    assert run("config", "generate") == (0, sample.read_text(), "")


@pytest.mark.parametrize(
    "option, key, rule",
    [
        ("require_signature = true", None, "require_signature = True: needs keys_file"),
        ("verify_replies = true", None, "verify_replies = True: needs keys_file"),
        ("keys_file = {}/none.json", None, "none.json: cannot be read: No such file"),
        ("keys_file = {0}/keys.json\nsigning_key = {0}/nova.jwk", "nova", "is not the private"),
        ("signing_key = {}/open.jwk", "open", "every user may read or write it: chmod o-rwx"),
    ],
    ids=["required", "verified", "missing", "other-key", "readable"],
)
def test_wrong_keys_are_mistakes(check, tmp_path, option, key, rule):
    files = KeyFiles(tmp_path)
    if key is not None:
        files.add(key, "conductor")
        files.file(key).write_text(PrivateKey.generate(key).text())
        files.file(key).chmod(0o644 if key == "open" else 0o600)
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
