"""The read API over TCP: TLS and tokens, on a real socket."""

import base64
import contextlib
import http.client
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from rtagent.api.address import HttpsAddress, TcpAddress
from rtagent.api.client import ReadClient
from rtagent.api.guard import Guard
from rtagent.api.reply import Reply
from rtagent.api.server import ReadAPI
from rtagent.conf.rpc import Api
from rtagent.errors import AgentUnreachable, ConfigError, RtAgentError
from tests.functional.cli.shell import run
from tests.servers.daemon import Daemon, SchedulerServer

#: Longer than one record of TLS, and than what the kernel buffers.
LONG = 4 * 2**20
PATIENCE = 2.0


class Sources:
    """Answers every request; ``/long`` with a long document."""

    def answer(self, target: str) -> Reply:
        size = LONG if target == "/long" else 2
        return Reply(body=b'{"x": "' + size * b"y" + b'", "nodes": []}')


def make_certificate(directory: Path, name: str) -> tuple[str, str]:
    cert, key = str(directory / f"{name}.pem"), str(directory / f"{name}.key")
    command = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 2"
    more = f"-subj /CN={name} -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run(
        [*command.split(), *more.split(), "-out", cert, "-keyout", key],
        check=True,
        capture_output=True,
    )
    return cert, key


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Api:
    directory = tmp_path_factory.mktemp("tls")
    cert, key = make_certificate(directory, "first")
    return Api(
        address="0.0.0.0:0", tls_cert=cert, tls_key=key, tokens_file=str(directory / "tokens")
    )


@pytest.fixture(scope="module")
def config(options: Api) -> str:
    file = Path(str(options.tokens_file)).with_name("rtagent.conf")
    file.write_text(f"[api]\ntokens_file = {options.tokens_file}\n")
    return str(file)


@pytest.fixture(scope="module")
def token(config: str) -> str:
    made = run("--config-file", config, "token", "create", "grafana")
    assert made.code == 0, made.err
    return made.out.strip()


@pytest.fixture(scope="module")
def api(options: Api, token: str) -> Iterator[ReadAPI]:
    address = TcpAddress(0, "0.0.0.0")
    made = ReadAPI(address, Sources(), guard=Guard(address, options), patience=PATIENCE)
    made.start()
    yield made
    made.stop()


def port(api: ReadAPI) -> int:
    assert isinstance(api.address, TcpAddress)
    return api.address.port


def client(api: ReadAPI, options: Api, token: str | None) -> ReadClient:
    return ReadClient(HttpsAddress("localhost", port(api), options.tls_cert), token=token)


def test_reads_need_tls_and_a_token(api: ReadAPI, options: Api, token: str):
    assert client(api, options, token).get("nodes")["nodes"] == []
    for wrong in (None, "", "x", token[:-1]):
        with pytest.raises(RtAgentError, match="a token is needed: rtagent token create makes one"):
            client(api, options, wrong).get("nodes")
    with pytest.raises(AgentUnreachable, match="certificate verify failed"):
        ReadClient(HttpsAddress("localhost", port(api)), token=token).get("nodes")
    with pytest.raises(AgentUnreachable):
        ReadClient(TcpAddress(port(api)), token=token).get("nodes")


def test_a_browser_may_give_the_token_as_password(api: ReadAPI, options: Api, token: str):
    context = ssl.create_default_context(cafile=options.tls_cert)
    connection = http.client.HTTPSConnection("localhost", port(api), context=context, timeout=30)
    connection.request("GET", "/")
    asked = connection.getresponse()
    assert asked.status == 401
    assert asked.headers["WWW-Authenticate"] == 'Bearer, Basic realm="rtagent"'
    word = base64.b64encode(f"me:{token}".encode()).decode()
    connection = http.client.HTTPSConnection("localhost", port(api), context=context, timeout=30)
    connection.request("GET", "/", headers={"Authorization": f"Basic {word}"})
    assert connection.getresponse().status == 200


def test_long_replies_arrive_whole_while_others_are_served(api: ReadAPI, options: Api, token: str):
    found: list[int] = []

    def read() -> None:
        found.append(len(client(api, options, token).get("long")["x"]))

    readers = [threading.Thread(target=read) for _ in range(8)]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
    assert found == [LONG] * 8


def test_request_in_many_records_and_in_parts_of_records_is_read(
    api: ReadAPI, options: Api, token: str
):
    context = ssl.create_default_context(cafile=options.tls_cert)
    head = f"GET /nodes HTTP/1.0\r\nAuthorization: Bearer {token}\r\nX: {'y' * 9000}\r\n\r\n"
    with (
        socket.create_connection(("localhost", port(api)), 30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        for part in (head[:7], head[7:40], head[40:]):
            tls.sendall(part.encode())
        assert tls.recv(100).startswith(b"HTTP/1.0 200")


def test_clients_without_a_handshake_are_disconnected_and_others_are_served(
    api: ReadAPI, options: Api, token: str
):
    silent = [socket.create_connection(("localhost", port(api)), 60) for _ in range(50)]
    half = socket.create_connection(("localhost", port(api)), 60)
    half.sendall(b"\x16\x03\x01\x02\x00")  # the beginning of a handshake
    plain = socket.create_connection(("localhost", port(api)), 60)
    plain.sendall(b"GET /nodes HTTP/1.0\r\n\r\n")  # not TLS
    assert client(api, options, token).get("nodes")["nodes"] == []
    for each in (*silent, half, plain):
        each.settimeout(60)
        with contextlib.suppress(ConnectionResetError):  # what it sent was not read
            while each.recv(100):  # an alert of TLS may come first
                pass
        each.close()


def test_reload_reads_tokens_and_certificate_again(
    api: ReadAPI, options: Api, token: str, config: str, tmp_path: Path
):
    made = run("--config-file", config, "token", "create", "prometheus", "--role", "operator")
    with pytest.raises(RtAgentError, match="a token is needed"):
        client(api, options, made.out.strip()).get("nodes")
    cert, key = make_certificate(tmp_path, "second")
    renewed = replace(options, tls_cert=cert, tls_key=key)
    api.reload(renewed)
    assert client(api, renewed, made.out.strip()).get("nodes")["nodes"] == []
    with pytest.raises(AgentUnreachable, match="certificate"):
        client(api, options, token).get("nodes")

    assert run("--config-file", config, "token", "revoke", "prometheus").code == 0
    api.reload(replace(options, tls_cert="/missing"))  # nothing of it is used
    assert client(api, renewed, made.out.strip()).get("nodes")["nodes"] == []
    api.reload(options)
    with pytest.raises(RtAgentError, match="a token is needed"):
        client(api, options, made.out.strip()).get("nodes")
    assert client(api, options, token).get("nodes")["nodes"] == []


def test_commands_read_over_tls_with_the_token_of_the_environment(
    api: ReadAPI, options: Api, token: str, config: str, tmp_path: Path, monkeypatch
):
    def listed(where: str) -> int:
        address = f"https://localhost:{where}"
        return run("--config-file", config, "--socket", address, "node", "list").code

    monkeypatch.setenv("RTAGENT_CA_FILE", str(options.tls_cert))
    assert listed(str(port(api))) == 1
    monkeypatch.setenv("RTAGENT_TOKEN", token)
    assert listed(str(port(api))) == 0
    monkeypatch.delenv("RTAGENT_TOKEN")
    (tmp_path / "token").write_text(f"{token}\n")
    monkeypatch.setenv("RTAGENT_TOKEN_FILE", str(tmp_path / "token"))
    assert listed(str(port(api))) == 0


def test_commands_list_the_names_of_tokens_and_refuse_a_second_of_one_name(config: str, token: str):
    listed = run("--config-file", config, "token", "list", "-f", "json").json
    assert {"name": "grafana", "role": "reader"} in listed
    again = run("--config-file", config, "token", "create", "grafana")
    assert again.code == 1 and "has a token grafana: rtagent token revoke removes it" in again.err
    unknown = run("--config-file", config, "token", "revoke", "nobody")
    assert unknown.code == 1 and "has no token nobody" in unknown.err


@pytest.mark.parametrize("left_out", ["tls_cert", "tls_key", "tokens_file"])
def test_address_of_other_hosts_needs_certificate_key_and_tokens(
    options: Api, token: str, left_out: str
):
    with pytest.raises(ConfigError, match=left_out) as refused:
        Guard(TcpAddress(8775, "192.0.2.1"), replace(options, **{left_out: None}))
    assert "[api]" in str(refused.value)
    Guard(TcpAddress(8775), Api(address=""))  # a loopback port needs nothing


@pytest.mark.parametrize("kind", [Daemon, SchedulerServer])
def test_daemon_that_other_hosts_could_read_without_token_ends_with_78(kind, tmp_path: Path):
    group, option = ("api", "address") if kind is Daemon else ("scheduler", "api_address")
    config = {group: {option: "0.0.0.0:0"}, "api": {"tls_cert": "/x", "tls_key": "/y"}}
    if kind is Daemon:
        config["api"][option] = "0.0.0.0:0"
    daemon = kind(tmp_path, "rabbit://127.0.0.1:1/", config=config)
    assert daemon.start().wait() == 78
    lines = daemon.last_lines()
    assert f"[{group}] {option} = 0.0.0.0:0" in lines
    assert "[api] tokens_file must be set; or use a unix socket, or 127.0.0.1:PORT" in lines
    daemon.close()
