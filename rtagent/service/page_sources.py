"""page_sources: what the pages of an agent show in addition to its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rtagent.api.page.sources import PageSources
from rtagent.embedded import EmbeddedNode
from rtagent.model.claim import ATTACH, Claim
from rtagent.model.decision import Decision
from rtagent.model.guest_comparison import DomainDocument, GuestComparison
from rtagent.model.node_state import NodeState
from rtagent.model.owners import main_claims
from rtagent.model.timeline import TimelineView
from rtagent.pci.pmem import with_namespaces
from rtagent.ports import Clock, Hypervisor, Store
from rtagent.reconcile.drift import attached_claims
from rtagent.rpc.methods import METHODS
from rtagent.rpc.read_endpoint import TestClaim, tested_request
from rtagent.rpc.validation import validate
from rtagent.service.claim_histories import ClaimHistories
from rtagent.virt.libvirt.comparison import compare


def page_sources(
    node: EmbeddedNode,
    store: Store,
    hypervisor: Hypervisor,
    timeline: Callable[[], TimelineView],
    clock: Clock,
) -> PageSources:
    """Return the sources of an agent's pages."""

    def test_claim(document: Mapping[str, Any]) -> Decision:
        arguments = validate(METHODS["test_claim"], document)
        assert isinstance(arguments, TestClaim)
        return node.tracker.test_claim(tested_request(arguments))

    return PageSources(
        history=ClaimHistories(store).read,
        timeline=timeline,
        document=hypervisor.document,
        comparison=comparison,
        test_claim=test_claim,
        root_ports=lambda: node.root_ports,
        now=clock.now,
    )


def comparison(state: NodeState, claim: Claim, document: DomainDocument | None) -> GuestComparison:
    """Compare the guest of a claim with its domain.

    An attach claim is shown with the owner's main claim, whose guest has its devices. Of an owner
    with two main claims, each is compared by itself.
    """
    claims = state.claims_of(claim.owner_id)
    main = claim if claim.kind != ATTACH else next(iter(main_claims(claims)), claim)
    attached = [each for each in attached_claims(claims) if each.uuid != main.uuid]
    whole, *others = (with_namespaces(each, state) for each in (main, *attached))
    return compare(whole, others, document)
