"""The policy: defaults, files that override them, and files that are wrong."""

import logging
import os
from pathlib import Path

import pytest
from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.rpc import ROLES
from rtagent.errors import ConfigError
from rtagent.rpc import AGENT
from rtagent.rpc.errors import NotAuthorized
from rtagent.rpc.methods import PREFIXES, TABLES, list_rules
from rtagent.rpc.roles import ENOUGH
from rtagent.rpc.trust.access import Caller
from rtagent.rpc.trust.policy import MAX_SIZE, AccessPolicy, read_rules
from rtagent.telemetry.telemetry import Telemetry
from tests.support.hosts import ManualClock

RELEASE = TABLES[AGENT].methods["release_claim"]


class Site:
    """A configuration with a policy file. :ivar file: the file, which does not exist yet."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "policy.yaml"
        self.clock = ManualClock()
        config = directory / "rtagent.conf"
        config.write_text(
            f"[oslo_policy]\npolicy_file = {self.file}\npolicy_dirs = {directory}/d\n"
        )
        self.conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(config)], "test")

    def write(self, text: str) -> None:
        """Replace the file, as an editor does."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.replace(self.file)

    def policy(self, topic: str = AGENT) -> AccessPolicy:
        reporter = Telemetry(self.clock)
        return AccessPolicy(self.conf, list_rules(), PREFIXES[topic], self.clock, reporter)

    def rule(self) -> str:
        """Why the file is refused."""
        with pytest.raises(ConfigError) as wrong:
            read_rules(self.conf, list_rules())
        assert wrong.value.kwargs["option"] == "policy_file"
        assert str(self.file) in wrong.value.kwargs["value"]
        return str(wrong.value.kwargs["rule"])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def caller(*roles: str, name: str = "alice", proved: bool = False) -> Caller:
    return Caller(name=name, roles=frozenset(roles), proved=proved)


def allowed(policy: AccessPolicy, who: Caller) -> bool:
    try:
        policy.authorize(who, RELEASE)
    except NotAuthorized:
        return False
    return True


@pytest.mark.parametrize("topic", sorted(TABLES))
def test_the_default_policy_is_the_table_of_roles(site: Site, topic: str):
    site.write("")
    policy = site.policy(topic)
    for role in ROLES:
        for method in TABLES[topic].methods.values():
            if role in ENOUGH[method.role]:
                policy.authorize(caller(role), method)
            else:
                with pytest.raises(NotAuthorized, match=f"needs the role {method.role}, which"):
                    policy.authorize(caller(role), method)


def test_a_file_overrides_a_rule_and_the_error_names_the_rule(site: Site):
    site.write('"rtagent:release_claim": "role:conductor and proved:True and name:nova"')
    policy = site.policy()
    assert allowed(policy, caller("conductor", name="nova", proved=True))
    assert not allowed(policy, caller("conductor", name="nova"))
    assert not allowed(policy, caller("operator", name="other", proved=True))
    with pytest.raises(NotAuthorized, match="the role of the policy rule rtagent:release_claim,"):
        policy.authorize(caller("reader"), RELEASE)


def test_changed_file_is_used_without_a_restart_and_a_wrong_one_is_not(site: Site, caplog):
    caplog.set_level(logging.INFO)
    site.write('"conductor": "!"')
    policy = site.policy()
    assert not allowed(policy, caller("conductor"))
    site.write('"conductor": "role:conductor"')
    site.clock.advance(2)
    assert allowed(policy, caller("conductor"))
    site.write('"conductor": "nonsense"')
    site.clock.advance(2)
    assert allowed(policy, caller("conductor"))
    assert "the policy stays as it was" in caplog.text and "'nonsense' is not a rule" in caplog.text
    site.file.unlink()
    policy.reload()
    assert allowed(policy, caller("conductor"))
    site.write('"conductor": "!"')
    policy.reload()
    assert not allowed(policy, caller("conductor"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "is not YAML"),
        ("- a", "must map names of rules to rules"),
        ('"reader": 7', "reader: must be text"),
        ('"reader": "nonsense"', "reader: 'nonsense' is not a rule"),
        ('"reader": "role:a and or"', "is not a rule"),
        ('"reader": "rule:none"', "reader: refers to itself, or to a rule that does not exist"),
        ('"reader": "rule:x"\n"x": "rule:reader"', "refers to itself"),
        ('"reader": "http://localhost/x"', "would call another server"),
        ('"reader": "1a:x"', "reader: cannot be evaluated"),
        (f'"reader": "{"not " * 3000}role:a"', "reader: has too many levels"),
        ("\n".join(f'"r{n}": "rule:r{n + 1}"' for n in range(3000)), "too many rules refer to"),
        ("#" * (MAX_SIZE + 1), f"cannot be read: it has more than {MAX_SIZE} bytes"),
    ],
    ids=lambda value: "".join(filter(str.isalnum, value))[:20],
)
def test_wrong_file_is_refused_with_the_rule_and_the_reason(site: Site, text: str, why: str):
    site.write(text)
    assert why in site.rule()


def test_file_that_is_named_must_exist(site: Site):
    assert "is not a file" in site.rule()
    os.mkfifo(site.file)
    assert "cannot be read: it is not a file" in site.rule()


def test_file_that_every_user_may_write_is_refused(site: Site):
    site.write("{}")
    site.file.chmod(0o646)
    assert site.rule() == "every user may write it: chmod o-w"


def test_rules_that_nothing_uses_are_named(site: Site):
    site.write('"team": "name:x"\n"rtagent:relase_claim": "rule:team"\n"operator": "!"')
    (doubt,) = read_rules(site.conf, list_rules()).doubts
    assert "rtagent:relase_claim is not the name of a rule" in doubt
