"""Remedies for what RabbitMQ refuses. The texts are those of RabbitMQ 3.10."""

import pytest

from rtagent.rpc.broker.refusals import explained, remedy

REFUSED = "(403) ACCESS_REFUSED - access to"
USER = "in vhost 'rtagent' refused for user 'agent-cn1'"
TOPIC = f"{REFUSED} topic 'k' in exchange 'e' {USER}"
TRIES = "Unable to connect to AMQP server on h:5671 after inf tries"
UNABLE = f"{TRIES}: Queue.declare: {REFUSED} queue 'q' {USER}"
WRITE = f"Basic.publish: (403) ACCESS_REFUSED - write access to exchange 'e' {USER}"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"Queue.declare: {REFUSED} queue 'q' {USER}", "permission 'configure' for the queue 'q'"),
        (f"Basic.consume: {REFUSED} queue 'q' {USER}", "permission 'read' for the queue 'q'"),
        (f"Queue.bind: {REFUSED} queue 'q' {USER}", "permission 'write' for the queue 'q'"),
        (f"Queue.bind: {REFUSED} exchange 'e' {USER}", "permission 'read' for the exchange 'e'"),
        (f"Basic.publish: {REFUSED} exchange 'e' {USER}", "permission 'write' for the exchange"),
        (f"Basic.publish: {TOPIC}", "topic permission to write 'k' at the exchange 'e'"),
        (f"Queue.bind: {TOPIC}", "topic permission to read 'k' at the exchange 'e'"),
        (UNABLE, "permission 'configure' for the queue 'q'"),
        (WRITE, "permission 'write' for the exchange 'e'"),
    ],
)
def test_a_missing_permission_is_named_with_its_user(text: str, what: str):
    found = remedy(text)
    assert what in found
    assert "give the user 'agent-cn1'" in found
    assert "virtual host 'rtagent'" in found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("(0, 0): (403) ACCESS_REFUSED - Login was refused using EXTERNAL", "common name"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required", "ssl_key"),
        ("[SSL] sslv3 alert certificate expired (_ssl.c:2580)", "not expired"),
        ("[SSL] sslv3 alert bad certificate (_ssl.c:2580)", "signed by"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: expired", "ssl_ca_file"),
        ("Connection.open: (530) NOT_ALLOWED - vhost / not found", "transport_url"),
        ("Couldn't find appropriate auth mechanism (can offer: PLAIN)", "rabbit_login_method"),
    ],
)
def test_other_refusals_name_the_option(text: str, what: str):
    assert what in remedy(text)
    assert explained(text) == f"{text}: {remedy(text)}"
    assert explained(explained(text)) == explained(text)


def test_other_errors_stay_as_they_are():
    assert remedy("Connection refused") == ""
    assert explained(OSError("Connection refused\nmore")) == "Connection refused"
    assert explained(TimeoutError()) == "TimeoutError"
