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


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        (
            "[claims]\nclaim_expiry_time = 0\n[api]\naddress = here\n"
            "[database]\nconnection = oracle://x:secret@y\n",
            [
                "[claims] claim_expiry_time = 0: Should be greater than or equal to 10",
                "[api] address = here: must be an absolute path or 127.0.0.1:PORT",
                "[database] connection = oracle://...: ",
            ],
        ),
        (
            "[oslo_messaging_rabbit]\nkombu_compression = gzip\n",
            ["[oslo_messaging_rabbit] kombu_compression = gzip: must be unset, because agents"],
        ),
        (
            "[DEFAULT]\ntransport_url = rabbit://me:pa$word@host/\n",
            ["[DEFAULT] transport_url = (unresolved): no such option word in group [DEFAULT]"],
        ),
        (
            "[DEFAULT]\ntransport_url = rabbit://me:secret@host:port/\n",
            ["[DEFAULT] transport_url = rabbit://...: must be a URL"],
        ),
        (
            "[DEFAULT]\ndebug = perhaps\n",
            ["[DEFAULT] debug = perhaps: Unexpected boolean value 'perhaps'"],
        ),
        (
            "[placement]\nauth_type = none\ntimeout = soon\n",
            ["[placement] timeout = soon: could not convert string to float: 'soon'"],
        ),
        (
            "[libvirt]\nimages_type = rbd\n",
            ["[libvirt] images_type = rbd: is an option of Nova that the agent does not have"],
        ),
        (
            "[database]\nconnection = nonsense\n",
            ["[database] connection = nonsense://...: must be an SQLAlchemy URL"],
        ),
        (
            "[database]\nconnection = sqlite://\n",
            ["[database] connection = sqlite://...: must name a file"],
        ),
        (
            "[database]\nconnection = mysql+aiomysql://me:secret@host/x\n",
            ["[database] connection = mysql+aiomysql://...: its driver is missing"],
        ),
        *(
            (
                f"[filter_scheduler]\n{option} = NoSuchRule\n",
                [f"[filter_scheduler] {option} = NoSuchRule: is not installed"],
            )
            for option in ("enabled_filters", "weight_classes")
        ),
    ],
)
def test_every_mistake_has_a_line_without_secrets(check, text, mistakes):
    outcome = check(text)

    assert (outcome.code, outcome.out) == (Exit.ERROR, "")
    for line, mistake in zip(outcome.err.splitlines(), mistakes, strict=True):
        assert line.startswith(f"rtagent: {mistake}")
    assert "secret" not in outcome.err


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("[claims]\nexpiry = 60\n", "[claims] expiry is not an option of the agent"),
        (
            "[devices]\nenabled_mdev_types = nvidia-35, nvidia-36\n",
            "[mdev_nvidia-35]: it has no device_addresses, so only nvidia-35",
        ),
    ],
)
def test_unknown_options_and_questionable_values_are_warnings(check, text, warning):
    outcome = check(text)

    assert outcome.code == 0
    assert warning in outcome.err


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
