"""Addresses of the read API, as text."""

import pytest

from rtagent.api.address import TcpAddress, UnixAddress, bind, page_url, parse
from rtagent.conf.rpc import Api
from rtagent.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/run/rtagent/x.sock", UnixAddress("/run/rtagent/x.sock")),
        ("/odd:80", UnixAddress("/odd:80")),
        ("127.0.0.1:9177", TcpAddress(9177)),
        ("127.0.0.1:0", TcpAddress(0)),
        ("0.0.0.0:80", TcpAddress(80, "0.0.0.0")),
        ("[::1]:80", TcpAddress(80, "::1")),
    ],
)
def test_addresses_are_parsed_and_printed(text, address):
    assert (parse(text), str(address)) == (address, text)


@pytest.mark.parametrize(
    "text", ["", "relative.sock", "0.0.0.0.0:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
             "localhost:80", "127.0.0.1:-1", "127.0.0.1:٣", "::1:80", "[127.0.0.1]:80",
             "[fe80::1%lo]:80"]
)  # fmt: skip
def test_other_addresses_are_refused(text):
    with pytest.raises(ConfigError, match=r"\[api\] address = .*absolute path or 127.0.0.1:PORT"):
        parse(text)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("/run/rtagent/x.sock", ""),
        ("127.0.0.1:8775", ""),
        ("[::1]:8775", ""),
        ("0.0.0.0:8775", "https://192.0.2.7:8775/"),
        ("[::]:8775", "https://192.0.2.7:8775/"),
        ("198.51.100.4:8775", "https://198.51.100.4:8775/"),
        ("[2001:db8::1]:8775", "https://[2001:db8::1]:8775/"),
        ("0.0.0.0:0", ""),
    ],
)
def test_pages_have_the_url_at_which_other_hosts_reach_them(address, url):
    assert page_url(Api(address=address), "192.0.2.7") == url


@pytest.mark.parametrize("address", ["/run/rtagent/x.sock", "127.0.0.1:8775", "0.0.0.0:8775"])
def test_the_url_of_the_pages_can_be_set(address):
    options = Api(address=address, page_url="https://compute1.example/")
    assert page_url(options, "192.0.2.7") == "https://compute1.example/"


def test_socket_is_not_made_where_every_user_could_replace_it(tmp_path):
    tmp_path.chmod(0o1777)

    with pytest.raises(ConfigError, match=r"another process could take its place: every user can"):
        bind(UnixAddress(str(tmp_path / "rtagent.sock")), 1)

    assert list(tmp_path.iterdir()) == []
