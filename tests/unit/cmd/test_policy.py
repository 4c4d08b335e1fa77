"""rtagent policy, and config check with a policy file."""

from pathlib import Path

import pytest
import yaml
from oslo_policy import generator

from rtagent.cmd.exit_codes import Exit
from rtagent.rpc.methods import get_enforcer, list_rules
from tests.functional.cli.shell import Run, configured, run


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return tmp_path / "policy.yaml"


@pytest.fixture
def rtagent(tmp_path: Path, policy: Path) -> Run:
    return configured(tmp_path, f"[oslo_policy]\npolicy_file = {policy}\n")


def test_sample_has_every_rule_and_its_meaning_and_overrides_nothing(rtagent: Run, policy: Path):
    sample = run("policy", "generate").out
    policy.write_text(sample)
    assert {rule["Source"] for rule in rtagent("policy", "list", "-f", "json").json} == {"default"}
    rules = yaml.safe_load("".join(f"{line[1:]}\n" for line in sample.split("\n") if '#"' in line))
    assert rules == {rule.name: rule.check_str for rule in list_rules()}
    assert "# Release everything that a claim has. Idempotent." in sample.split("\n")
    assert all(len(line) <= 100 for line in sample.split("\n"))


def test_the_list_has_the_rules_in_force_and_where_they_are_from(rtagent, policy):
    policy.write_text('"rtagent:ping": "role:monitor"\n"rtagent:pong": "@"\n')
    listed = rtagent("policy", "list", "-f", "json")
    rules = {rule["Rule"]: (rule["Check"], rule["Source"]) for rule in listed.json}
    assert rules["rtagent:ping"] == ("role:monitor", str(policy))
    assert rules["rtagent:get_claim"] == ("rule:reader", "default")
    assert "rtagent:pong is not the name of a rule" in listed.err


def test_config_check_finds_a_wrong_policy_and_rules_that_nothing_uses(rtagent, policy):
    policy.write_text('"reader": "nonsense"')
    checked = rtagent("config", "check")
    assert checked.code == Exit.ERROR
    assert f"[oslo_policy] policy_file = {policy}: reader: 'nonsense' is not" in checked.err
    policy.write_text('"raeder": "@"')
    checked = rtagent("config", "check")
    assert checked.code == 0 and "raeder is not the name of a rule" in checked.err


def test_tools_of_oslo_policy_know_the_rules():
    assert generator.get_policies_dict(["rtagent"])["rtagent"] == list_rules()
    assert get_enforcer().authorize("rtagent:ping", {}, {"roles": ["agent"]})
