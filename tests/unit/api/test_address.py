"""Addresses of the read API, as text."""

import pytest

from rtagent.api.address import TcpAddress, UnixAddress, bind, parse
from rtagent.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/run/rtagent/x.sock", UnixAddress("/run/rtagent/x.sock")),
        ("/odd:80", UnixAddress("/odd:80")),
        ("127.0.0.1:9177", TcpAddress(9177)),
        ("127.0.0.1:0", TcpAddress(0)),
    ],
)
def test_addresses_are_parsed_and_printed(text, address):
    assert (parse(text), str(address)) == (address, text)


@pytest.mark.parametrize(
    "text", ["", "relative.sock", "0.0.0.0:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
             "localhost:80", "127.0.0.1:-1", "127.0.0.1:٣", "[::1]:80"]
)  # fmt: skip
def test_other_addresses_are_refused(text):
    with pytest.raises(ConfigError, match=r"\[api\] address = .*absolute path or 127.0.0.1:PORT"):
        parse(text)


def test_socket_is_not_made_where_every_user_could_replace_it(tmp_path):
    tmp_path.chmod(0o1777)

    with pytest.raises(ConfigError, match=r"another process could take its place: every user can"):
        bind(UnixAddress(str(tmp_path / "rtagent.sock")), 1)

    assert list(tmp_path.iterdir()) == []
