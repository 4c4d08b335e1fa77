"""The definitions of users and permissions."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rtagent.errors import InvalidRequest
from rtagent.rpc.broker.definitions import COMMON_NAME, definitions
from rtagent.rpc.broker.rights import Names

SHIPPED = Path(__file__).parents[4] / "etc/rtagent/rabbitmq/definitions.json"
HEX = "0" * 32


def of(document: dict[str, Any], part: str, user: str) -> dict[str, Any]:
    (found,) = (each for each in document[part] if each["user"] == user)
    return dict(found)


def test_the_shipped_file_is_what_the_command_prints():
    made = definitions(["compute1", "compute2.example"], "rtagent", Names())
    assert json.loads(SHIPPED.read_text()) == made, (
        "run rtagent broker definitions compute1 compute2.example"
        " > etc/rtagent/rabbitmq/definitions.json"
    )


def test_no_permission_of_an_agent_matches_a_name_of_another():
    made = definitions(["cn1", "cn1.a", "cn11", "cn-1"], "rtagent", Names())
    permissions, topics = of(made, "permissions", "agent-cn1"), made["topic_permissions"]
    for host in ("cn1.a", "cn11", "cn-1", "cn1x", "xcn1"):
        names = (f"rtagent.{host}", f"rtagent_lock.{host}", f"reply_agent-{host}_{HEX}")
        for name in names:
            assert not any(re.search(permissions[each], name) for each in ("write", "read"))
            assert not re.search(permissions["configure"], name)
        own = of({"topic_permissions": topics}, "topic_permissions", "agent-cn1")
        assert not re.search(own["write"], names[0])
    dotted = of(made, "permissions", "agent-cn1.a")
    assert re.search(dotted["read"], "rtagent.cn1.a")
    assert not re.search(dotted["read"], "rtagent.cn1xa")


def test_every_user_has_topic_permissions():
    """A user without them may write with any routing key."""
    made = definitions(["cn1"], "rtagent", Names(exchange="nova"))
    users = {each["name"] for each in made["users"]}
    assert users == {"conductor", "scheduler", "operator", "agent-cn1"}
    for part in ("permissions", "topic_permissions"):
        assert {each["user"] for each in made[part]} == users
    assert {each["exchange"] for each in made["topic_permissions"]} == {"nova"}
    assert of(made, "topic_permissions", "conductor")["read"] == "^$"


def test_names_of_a_configuration():
    names = Names(exchange="cloud.1", notifications=["a.info", "b.info"])
    made = definitions(["cn1"], "v1", names)
    assert [each["name"] for each in made["queues"]] == ["a.info", "b.info"]
    assert {each["source"] for each in made["bindings"]} == {"cloud.1"}
    write = of(made, "topic_permissions", "agent-cn1")["write"]
    assert write == r"^(rtagent\.cn1|rtagent_lock\.cn1|a\.info|b\.info)$"
    assert {each["vhost"] for part in ("permissions", "queues") for each in made[part]} == {"v1"}


@pytest.mark.parametrize(
    ("host", "vhost"),
    [("a b", "v"), ("", "v"), ("a|b", "v"), ("a\n", "v"), ("a" * COMMON_NAME, "v"), ("a", "/")],
)
def test_a_name_that_cannot_be_used_is_named(host: str, vhost: str):
    with pytest.raises(InvalidRequest) as refused:
        definitions([host, "good"], vhost, Names())
    (error,) = refused.value.kwargs["errors"]
    assert error["path"] == ("host" if vhost == "v" else "vhost")
