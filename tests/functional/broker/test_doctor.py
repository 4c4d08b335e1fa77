"""rtagent doctor shows what a user of the broker may do and need not, and what it lacks."""

from pathlib import Path

import pytest

from tests.functional.broker.conftest import HOSTS, options
from tests.functional.broker.test_recipe import healthy
from tests.functional.cli.shell import run
from tests.servers.daemon import Daemon
from tests.servers.guarded_rabbitmq import VHOST, GuardedRabbitMQ

OTHER = f"agent-{HOSTS[1]}"


def permissions(file: Path) -> dict[str, str]:
    """The row about permissions."""
    outcome = run("--config-file", str(file), "doctor", "-f", "json")
    (found,) = (each for each in outcome.json if each["check"] == "broker permissions")
    return dict(found)


def queues(broker: GuardedRabbitMQ) -> set[tuple[str, ...]]:
    """Name and consumers of each queue, and the messages of those without a consumer: agents call
    themselves, so a queue that is read may have a message for a moment. Events may arrive at any
    time.
    """
    # The command has a reply queue of its own for a while.
    return {
        tuple(row[:2] if row[1] != "0" or row[0].startswith("notifications.") else row)
        for row in broker.queues()
        if not row[0].startswith("reply_")
    }


def test_users_of_the_recipe_may_do_what_they_need(
    broker: GuardedRabbitMQ, agent: Daemon, operator: Path
):
    before = queues(broker)
    for file in (agent.config_file, operator):
        found = permissions(file)
        assert (found["result"], found["remedy"]) == ("pass", ""), found
    assert queues(broker) == before
    assert healthy(agent)


@pytest.fixture
def other(broker: GuardedRabbitMQ, tmp_path: Path) -> Daemon:
    """An agent that does not run."""
    made = Daemon(tmp_path, broker.url(OTHER), config=options(broker, OTHER))
    made.configure({"DEFAULT": {"host": HOSTS[1]}})
    return made


def test_a_user_with_all_permissions_and_one_with_none(broker: GuardedRabbitMQ, other: Daemon):
    try:
        broker.permit(OTHER, ".*", ".*", ".*", vhost=VHOST)
        broker.clear_topics(OTHER)
        before = queues(broker)
        found = permissions(other.config_file)
        assert found["result"] == "warn"
        for what in ("read calls for other agents", "call all agents at once", "call schedulers"):
            assert what in found["details"]
        assert "delete the exchange of all calls" in found["details"]
        assert "send replies" not in found["details"]
        assert "rtagent broker definitions" in found["remedy"]
        assert queues(broker) == before
        broker.permit(OTHER, "^$", "^$", "^$", vhost=VHOST)
        found = permissions(other.config_file)
        assert found["result"] == "fail"
        assert f"the user {OTHER} may not" in found["details"]
        assert "send replies" in found["details"]
    finally:
        broker.restore()
