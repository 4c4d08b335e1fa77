"""Secrets of a configuration in a text."""

import pytest
from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.secrets import Secrets


@pytest.fixture
def secrets(tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text(
        "[database]\nconnection = postgresql+psycopg://rtagent:p%40ss/word@db/rtagent\n"
        "[placement]\nauth_type = password\npassword = keystone-secret\n"
        "[conductor]\nconnection = mysql+pymysql://c:abc@db/c\n"
    )
    return Secrets(load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd"))


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("cannot log in with keystone-secret", "cannot log in with ***"),
        ("postgresql+psycopg://rtagent:p%40ss/word@db/rtagent: refused", "***: refused"),
        ("the password is p@ss/word", "the password is ***"),
        ("amqp://user:other@host:5672//", "amqp://***@host:5672//"),
        ("rabbit://a:b@h1:1,c:d@h2:2/", "rabbit://***@h2:2/"),
        ("http://token@host/path and qemu+tcp://host/system", "http://***@host/path and qemu+tcp://host/system"),
        ("abc is short, and occurs by chance", "abc is short, and occurs by chance"),
        ("mysql+pymysql://c:abc@db/c", "***"),
        ("mail root@localhost about http://host/", "mail root@localhost about http://host/"),
    ],
)  # fmt: skip
def test_secrets_are_hidden_wherever_they_are(secrets, text, masked):
    assert secrets.masked(text) == masked


def test_configuration_that_cannot_be_read_hides_the_rest(tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text("[database]\nconnection = $nothing\n[conductor]\nconnection = sqlite:///x/y\n")
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")
    assert Secrets(conf).masked("at sqlite:///x/y") == "at ***"
