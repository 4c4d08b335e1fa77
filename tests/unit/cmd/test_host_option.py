"""``--host``: commands that would act on this machine nevertheless refuse it."""

import pytest

from tests.functional.cli.shell import run


@pytest.mark.parametrize(
    "command",
    [
        *("config check", "db version", "db restore FILE", "doctor", "schema list"),
        *("broker definitions cn1", "policy list", "token list", "upgrade check"),
        "host simulate FILE",
    ],
)
def test_commands_for_this_machine_refuse_it(command: str):
    refused = run("--host", "compute1", *command.split())
    assert refused.code == 2
    assert "--host: this command is for this machine only: leave it out" in refused.err


@pytest.mark.parametrize("command", ["service force-down x", "aggregate create x"])
def test_commands_that_ask_a_scheduler_refuse_it(command: str):
    refused = run("--host", "compute1", *command.split())
    assert refused.code == 2
    assert "--host: names an agent, and a scheduler does this: leave it out" in refused.err


def test_commands_of_servers_have_one_of_their_own_or_none():
    with pytest.raises(SystemExit) as refused:
        run("server", "list", "--host", "compute1")
    assert refused.value.code == 2


@pytest.mark.parametrize("host", ["", " ", "no such host", "a/b", "x" * 300, "compute1:5672"])
def test_a_name_that_no_host_can_have_is_refused_at_once(host: str, capsys):
    with pytest.raises(SystemExit) as refused:
        run("--host", host, "claim", "list")
    assert refused.value.code == 2
    assert "is not the name of a service host" in capsys.readouterr().err
