"""page_sources: what the pages of an agent show in addition to its state."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from rtagent.api.page.host_pages import PageSources
from rtagent.embedded import EmbeddedNode
from rtagent.errors import TooManyRequests
from rtagent.model.claim import ATTACH, Claim, HistoryPage
from rtagent.model.decision import Decision
from rtagent.model.guest import DomainDocument, GuestComparison
from rtagent.model.node_state import NodeState
from rtagent.model.owners import main_claims
from rtagent.model.timeline import TimelineView
from rtagent.pci.pmem import with_namespaces
from rtagent.ports import Clock, Hypervisor, Store
from rtagent.reconcile.drift import attached_claims
from rtagent.rpc.methods import METHODS
from rtagent.rpc.read_endpoint import TestClaim, tested
from rtagent.rpc.schemas import validate
from rtagent.virt.libvirt.comparison import compare

#: How many events a page has at most.
PAGE = 200
#: How many reads wait for the database at once. The read API has more threads than these, so a
#: database that does not answer never keeps it from answering a health probe.
READERS = 2
#: Seconds for which a read waits for its turn.
PATIENCE = 0.1
#: How many pages of live claims are kept.
KEPT = 64

_Key = tuple[str, int | None, int]


class ClaimHistories:
    """Thread-safe. It takes no lock of the tracker: a read of the database is one query, which ends
    within ``[database] operation_timeout``.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns = threading.BoundedSemaphore(READERS)
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, HistoryPage] = OrderedDict()

    def read(self, state: NodeState, claim_uuid: str | None, before: int | None) -> HistoryPage:
        """Return the newest events of a claim, or of all claims (None).

        The history of a live claim is read again only after the claim has changed.

        :param before: only events with a lower number; None: the newest.
        :raises StoreUnavailable: TooManyRequests: repeat the call later.
        """
        claim = state.claims.get(claim_uuid or "")
        if claim is None:
            return self._read(state.node.uuid, claim_uuid, before)
        key = (claim.uuid, before, claim.revision)
        with self._lock:
            page = self._kept.get(key)
        if page is None:
            page = self._read(state.node.uuid, claim.uuid, before)
            with self._lock:
                self._kept[key] = page
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return page

    def _read(self, node_uuid: str, claim_uuid: str | None, before: int | None) -> HistoryPage:
        if not self._turns.acquire(timeout=PATIENCE):
            raise TooManyRequests(
                f"{READERS} reads of the history wait for the database, which is the limit",
                method="GET /history",
                limit=READERS,
            )
        try:
            return self._store.history_page(node_uuid, claim_uuid, before, PAGE)
        finally:
            self._turns.release()


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
        return tested(node.tracker, arguments)

    return PageSources(
        history=ClaimHistories(store).read,
        timeline=timeline,
        document=hypervisor.document,
        comparison=comparison,
        test_claim=test_claim,
        root_ports=lambda: node.auditor.root_ports,
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
