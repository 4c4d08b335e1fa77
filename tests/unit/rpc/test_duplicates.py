"""Calls to an agent while another agent has its host name; the connection of the host lock."""

import socket
import threading

import pytest

from rtagent.errors import DuplicateHost, NodeNotReady
from rtagent.rpc.duplicates import MEMORY, AgentIdentity, ascii_text, identity_of
from rtagent.rpc.host_lock import Attempt
from tests.support.hosts import uid
from tests.support.rpc import Agent, Contender, build, claim_change, documents, operation

OTHER = AgentIdentity(agent_uuid=uid(), node_uuid=uid(), node="other", machine_id="m2")
#: Methods that create a claim, or test whether it could be created.
CREATING = (
    *("instance_claim", "resize_claim", "live_migration_claim", "rebuild_claim"),
    *("instance_claims", "claim_pci_devices", "test_claim"),
)


#: Methods that change something else than claims and instances.
OF_THE_NODE = (
    *("quarantine_pci_device", "clear_pci_device", "build_failed", "build_succeeded"),
    *("set_service", "accept_restore", "drain_node", "undrain_node"),
)


def names_something(document: dict) -> bool:
    return bool({"claim_uuid", "instance_uuid", "instance", "domain_uuid"} & set(document))


@pytest.mark.parametrize("name", list(documents()))
def test_calls_for_the_unknown_are_refused_while_another_agent_is_known(agent: Agent, name: str):
    document = documents()[name]
    agent.duplicates.seen(OTHER)
    before = agent.tracker.snapshot()
    if name in (*CREATING, *OF_THE_NODE) or names_something(document):
        with pytest.raises(DuplicateHost, match=f"the other is node {OTHER.node_uuid}"):
            agent.invoke(name, **document)
        assert agent.tracker.snapshot() is before
    else:
        agent.invoke(name, **document)


@pytest.mark.parametrize("name", [each for each in OF_THE_NODE if each != "accept_restore"])
def test_changes_of_the_node_that_a_call_names_are_made(agent: Agent, name: str):
    agent.duplicates.seen(OTHER)
    agent.invoke(name, **documents()[name], node_uuid=agent.identity.node_uuid)


def test_known_claims_can_be_released_while_another_agent_is_known(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    agent.duplicates.seen(OTHER)
    agent.invoke("release_claim", **claim_change(claim))
    assert not agent.tracker.snapshot().claims


def test_a_refused_release_does_not_end_the_claim_of_a_late_create(agent: Agent):
    claim = build()
    agent.duplicates.seen(OTHER)
    with pytest.raises(DuplicateHost):
        agent.invoke("abort_instance_claim", claim_uuid=claim["operation_id"], **operation())
    agent.clock.advance(MEMORY)
    agent.duplicates.forget()
    assert agent.invoke("instance_claim", **claim)["uuid"] == claim["operation_id"]


def test_without_trust_claims_are_granted_and_unknown_ones_are_not_ended(agent: Agent):
    agent.duplicates.trust(5)
    agent.clock.advance(5)
    agent.invoke("instance_claim", **build())
    with pytest.raises(NodeNotReady, match="the host lock is not held"):
        agent.invoke("release_claim", claim_uuid=uid(), **operation())
    agent.duplicates.trust(5)
    agent.invoke("release_claim", claim_uuid=uid(), **operation())


def test_the_fullest_identity_is_kept(agent: Agent):
    poor = AgentIdentity(agent_uuid=OTHER.agent_uuid, node_uuid=OTHER.node_uuid, node="other")
    for seen, named in ((None, "another version"), (poor, "(other)"), (OTHER, "machine m2")):
        agent.duplicates.seen(seen)
        assert named in agent.duplicates.error.message
    for seen in (None, poor):
        agent.duplicates.seen(seen)
        assert "machine m2" in agent.duplicates.error.message


@pytest.mark.parametrize(
    "reply",
    [
        *(None, {}, [], {"agent_uuid": "x"}, {"node_uuid": uid()}),
        {"agent_uuid": uid(), "node_uuid": uid(), "node": "two\nlines"},
        {"agent_uuid": uid(), "node_uuid": uid(), "node": "\x1b[31m"},
        {"agent_uuid": uid(), "node_uuid": uid(), "node": "n" * 256},
    ],
)
def test_an_invalid_identity_is_none(reply):
    assert identity_of(reply) is None


def test_any_name_can_be_made_printable():
    for name in ("host-ž", "a\nb", "\x1b", "x" * 1000, "\ud800"):
        identity = AgentIdentity(agent_uuid=uid(), node_uuid=uid(), node=ascii_text(name))
        assert identity_of(documents_of(identity)) == identity


def documents_of(identity: AgentIdentity) -> dict:
    return {name: getattr(identity, name) for name in identity.__struct_fields__}


#: What a client sends first: with TLS a handshake record, without it the protocol's name.
TLS, PLAIN = b"\x16", b"A"


@pytest.mark.parametrize(("query", "first"), [("", PLAIN), ("?ssl=1", TLS), ("?ssl=0", PLAIN)])
def test_options_in_the_url_count(query, first):
    received = []

    def broker(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            received.append(connection.recv(1))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=broker, args=(listening,))
        thread.start()
        port = listening.getsockname()[1]
        contender = Contender(f"rabbit://u:p@127.0.0.1:{port}/{query}", "h")
        assert contender.attempt() is Attempt.UNREACHABLE
        thread.join()
    assert received == [first]
