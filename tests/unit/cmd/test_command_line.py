"""The command line as a whole: ``--host``, exit codes, and suggestions for unknown commands."""

import pytest

from rtagent import errors
from rtagent.cmd.exit_codes import MEANINGS, Exit, exit_code, exit_code_help
from rtagent.conductor.errors import OperationFailed
from tests.functional.cli.shell import run


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.ComputeResourcesUnavailable(reasons=[]), 3),
        (errors.NodeNotReady(), 4),
        (errors.ClaimNotFound(claim_uuid="x"), 5),
        (errors.ClaimConflict("x"), 6),
        (errors.InvalidRequest(method="x", errors=[]), 2),
        (errors.SchemaMismatch("x"), 1),
        (ExceptionGroup("x", [errors.ConfigError(group="a", option="b", value="c", rule="d")]), 1),
        (ZeroDivisionError(), 1),
        (OperationFailed(error={"error": "PropertyInvalid", "message": "x"}), 2),
        (OperationFailed(error={"error": "SchemaMismatch", "message": "x"}), 1),
    ],
)
def test_each_error_has_its_exit_code(error, expected):
    assert exit_code(error) == expected


def test_every_exit_code_is_in_the_help():
    assert set(MEANINGS) == set(Exit)
    assert all(f"  {exit_.value}  " in exit_code_help() for exit_ in Exit)


@pytest.mark.parametrize(
    ("command", "suggested"),
    [
        *(("drain", "node drain"), ("undrain", "node undrain"), ("adopt", "orphan adopt")),
        *(("force-down compute1", "service force-down"), ("clam list", "claim list")),
    ],
)
def test_command_with_that_word_or_a_similar_one_is_suggested(command: str, suggested: str):
    refused = run(*command.split())
    assert refused.code == 2
    assert f"  {suggested}\n" in refused.out


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


@pytest.mark.parametrize(
    "command", ["claim renew x", "audit run", "aggregate create x", "service enable"]
)
def test_commands_that_a_daemon_executes_refuse_offline(command: str):
    refused = run("--offline", *command.split())
    assert refused.code == 2
    assert "--offline: reads a database, and a" in refused.err


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
