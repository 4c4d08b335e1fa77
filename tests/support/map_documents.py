"""The host map's HTML, against the documents of the same state."""

from __future__ import annotations

import json
from typing import Any

from lxml import html

from rtagent.api.routes import answer
from rtagent.model.node_state import NodeState
from tests.support.api_states import sources


def document(state: NodeState, path: str) -> dict[str, Any]:
    return json.loads(answer(sources(state), path).body)


def page(state: NodeState) -> html.HtmlElement:
    reply = answer(sources(state), "/")
    assert reply.status == 200
    return html.fromstring(reply.body.decode())


def rows(tree: html.HtmlElement) -> dict[str, str]:
    """The uuid of each owner by its code."""
    return {
        each.get("data-owner"): each.get("data-uuid") for each in tree.xpath("//tr[@data-uuid]")
    }


def owner_of(tree: html.HtmlElement, identifier: str) -> str | None:
    (found,) = tree.xpath("//*[@id=$id]", id=identifier)
    code = found.get("data-owner")
    assert (code is None) == (found.get("href") is None)
    return None if code is None else rows(tree)[code]


def check_map(state: NodeState) -> None:
    """Check that the map shows what the documents of the state show."""
    tree = page(state)
    (numa,) = document(state, "/numa")["numa"]
    cpus = [cpu for cell in numa["cells"] for core in cell["cores"] for cpu in core]
    assert len(tree.xpath("//a[contains(@class, 'cpu ')]")) == len(cpus)
    for cpu in cpus:
        assert owner_of(tree, f"cpu-{cpu['id']}") == cpu["owner_id"]
        (found,) = tree.xpath("//*[@id=$id]", id=f"cpu-{cpu['id']}")
        assert found.get("class").split()[1] == cpu["use"]
        for other in cpu["intruders"]:
            assert other in found.get("aria-label")
    for device in document(state, "/pci")["pci"]:
        assert owner_of(tree, f"dev-{device['address']}") == device["owner_id"]
        (found,) = tree.xpath("//*[@id=$id]", id=f"dev-{device['address']}")
        for text in (device["status"], device["reason"], *device["others"]):
            assert text in found.get("aria-label")
    for number, resource in enumerate(document(state, "/resources")["resources"]):
        assert owner_of(tree, f"res-{number}") == resource["owner_id"]
    claimed = {each["owner_id"] for each in document(state, "/claims")["claims"]}
    orphans = {each["domain_uuid"] for each in document(state, "/orphans")["orphans"]}
    assert set(rows(tree).values()) == claimed | orphans
