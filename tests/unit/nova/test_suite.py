"""Two runs of Nova's suites are compared."""

import json

import pytest

from tests.nova import suite

PASSES, SKIPPED, FAILS = ({"status": each} for each in ("passed", "skipped", "failed"))


def write(path, outcomes):
    lines = (json.dumps({"name": name, **each}) for name, each in outcomes.items())
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_tests_that_pass_in_one_run_only_are_differences():
    plain = {"a": PASSES, "b": PASSES, "c": FAILS, "d": SKIPPED, "e": FAILS}
    ours = {"a": PASSES, "b": FAILS, "c": PASSES, "d": PASSES, "e": FAILS}
    assert list(suite.differences(plain, ours)) == [
        "b: passed without rtagent, failed with it",
        "c: failed without rtagent, passed with it",
    ]


def test_tests_of_one_run_are_no_differences():
    assert list(suite.differences({"a": PASSES}, {"b": FAILS})) == []


@pytest.mark.parametrize(("ours", "code"), [({"a": PASSES}, 0), ({"a": FAILS}, 1)])
def test_the_exit_code_says_whether_there_are_differences(tmp_path, capsys, ours, code):
    files = (
        write(tmp_path / name, outcomes)
        for name, outcomes in (("plain", {"a": PASSES, "b": SKIPPED}), ("ours", ours))
    )
    assert suite.main(["--compare", *map(str, files)]) == code
    assert "without rtagent: 1 passed, 1 skipped" in capsys.readouterr().out


def test_a_new_file_has_no_outcomes(tmp_path):
    assert suite.read(tmp_path / "results") == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compare", "{0}/plain", "{0}/ours"], "{0}/plain does not exist"),
        (["{0}/nowhere/results"], "{0}/nowhere is not a directory"),
        ([], "RESULTS is missing"),
    ],
)
def test_wrong_files_are_named_before_anything_runs(tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit):
        suite.main([each.format(tmp_path) for each in arguments])
    assert message.format(tmp_path) in capsys.readouterr().err
