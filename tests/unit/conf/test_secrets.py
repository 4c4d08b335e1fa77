"""Secrets of a configuration in a text."""

import pytest

from rtagent.service.state_report import Secrets
from tests.support.configurations import parsed


@pytest.fixture
def secrets(tmp_path):
    text = (
        "[database]\nconnection = postgresql+psycopg://rtagent:p%40ss/word@db/rtagent\n"
        "[placement]\nauth_type = password\npassword = keystone-secret\n"
        "[conductor]\nconnection = mysql+pymysql://c:abc@db/c\n"
    )
    return Secrets(parsed(tmp_path, text))


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
    text = "[database]\nconnection = $nothing\n[conductor]\nconnection = sqlite:///x/y\n"
    assert Secrets(parsed(tmp_path, text)).masked("at sqlite:///x/y") == "at ***"
