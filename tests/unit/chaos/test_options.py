"""The command lines of runs and of planted defects refuse what would check nothing."""

from __future__ import annotations

import pytest

from tests.chaos.options import parser, plan
from tests.chaos.planted.__main__ import main as plant


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--minutes 0", "--minutes: 0 is not a number above 0"),
        ("--minutes nan", "--minutes: nan is not"),
        ("--minutes ten", "--minutes: invalid minutes value: 'ten'"),
        ("--seed x", "--seed: invalid int value: 'x'"),
        ("--hosts 0", "--hosts: 0 is below 1"),
        ("--callers -1", "--callers: -1 is below 1"),
        ("--faults kill-agent,kill", "--faults: unknown: kill; choose from clock-step, "),
        ("--database foo", "--database: invalid choice: 'foo'"),
        ("--lab --database sqlite", "--database: not allowed with argument --lab"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args(arguments.split())
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_directory_is_kept_that_has_no_other_run(tmp_path, capsys):
    for new in (tmp_path, tmp_path / "new"):
        assert parser().parse_args(["--keep", str(new)]).keep == new
    (tmp_path / "history.jsonl").touch()
    for used in (tmp_path, tmp_path / "history.jsonl"):
        with pytest.raises(SystemExit, match="2"):
            parser().parse_args(["--keep", str(used)])
        assert "exists; name an empty or a new directory" in capsys.readouterr().err


def test_faults_are_named_or_none():
    assert parser().parse_args(["--faults", "none"]).faults == ()
    chosen = parser().parse_args(["--faults", "kill-agent,clock-step"]).faults
    assert chosen == ("kill-agent", "clock-step")


def test_lab_hosts_are_fewer_unless_their_number_is_given():
    usual, lab = (plan(parser().parse_args(each)) for each in ([], ["--lab"]))
    assert (usual.lab, lab.lab) == (False, True)
    assert (lab.hosts, lab.callers) < (usual.hosts, usual.callers)
    chosen = plan(
        parser().parse_args(
            ["--lab", "--hosts", "2", "--callers", "9", "--seed", "7", "--minutes", "5"]
        )
    )
    assert (chosen.hosts, chosen.callers, chosen.seed, chosen.seconds) == (2, 9, 7, 300)


@pytest.mark.parametrize("given", ["--seed 7", "--seed 7 --lab --faults kill-agent --minutes 2"])
def test_the_command_of_a_plan_makes_the_same_plan(given: str):
    made = plan(parser().parse_args(given.split()))
    program, *options = made.command.split()
    assert program == "tools/chaos"
    assert plan(parser().parse_args(options)) == made


def test_a_defect_that_is_not_known_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        plant(["lost-comit"])
    assert "unknown: lost-comit; choose from double-grant, " in capsys.readouterr().err
