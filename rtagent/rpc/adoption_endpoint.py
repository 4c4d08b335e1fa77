"""The methods that make claims of domains that have none, and their arguments."""

from __future__ import annotations

from rtagent.audit import Auditor
from rtagent.model.base import Uuid
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.guest_layout import GuestLayout
from rtagent.reconcile.adoption import notes
from rtagent.rpc import replies
from rtagent.rpc.method import Arguments, rpc_method
from rtagent.rpc.roles import OPERATOR, READER
from rtagent.tracker import TEST_CALL, ResourceTracker

#: Errors of both methods, besides those of every change.
_ERRORS = (
    *("DomainNotAdoptable", "ClaimConflict", "HypervisorUnavailable"),
    *("NodeDraining", "NodeNotReady", "StoreRestored", "StoreUnavailable"),
)


class TestAdoption(Arguments, frozen=True, kw_only=True):
    """The domain to adopt.

    :ivar flavor: the flavor of the server; null: the one in the metadata of the domain, or else
        one with the domain's vCPUs and memory. The claim has the vCPUs and the memory of the
        domain in any case.
    :ivar shut_off: adopt the domain even if it is shut off. Its claim has what it needs to start.
    """

    domain_uuid: Uuid
    flavor: Flavor | None = None
    shut_off: bool = False


class AdoptDomain(TestAdoption, frozen=True, kw_only=True):
    """:ivar operation_id: becomes the claim's uuid."""

    operation_id: Uuid


class AdoptionEndpoint:
    """Serves the methods that adopt domains."""

    def __init__(
        self, tracker: ResourceTracker, auditor: Auditor, claim_replies: replies.ClaimReplies
    ) -> None:
        self._tracker, self._auditor, self._replies = tracker, auditor, claim_replies

    @rpc_method(OPERATOR, errors=(*_ERRORS, "ClaimExpired"), slow=True, at_once=1)
    def adopt_domain(self, arguments: AdoptDomain, call: Call) -> replies.Adopted:
        """Make an ``active`` claim of a domain that has none: an orphan. The claim has the
        host CPUs, cells, pages and devices of the domain. Its uuid is the operation id. A domain
        that no claim can describe, or that shares a unit with a claim, is refused with
        ``DomainNotAdoptable`` and stays an orphan. So is a domain that is shut off, if ``shut_off``
        is false or others use what it needs."""
        layout = self._auditor.guest(arguments.domain_uuid)
        adopt = self._tracker.adoptions.adopt
        uuid, flavor = arguments.domain_uuid, arguments.flavor
        claim = adopt(uuid, layout, flavor, call, shut_off=arguments.shut_off)
        return self._reply(claim, layout, arguments)

    @rpc_method(READER, errors=_ERRORS, slow=True, at_once=1)
    def test_adoption(self, arguments: TestAdoption) -> replies.Adopted:
        """Return the claim that ``adopt_domain`` would make, or its error. Changes nothing."""
        layout, state = self._auditor.guest(arguments.domain_uuid), self._tracker.snapshot()
        test = self._tracker.adoptions.test
        uuid, flavor = arguments.domain_uuid, arguments.flavor
        claim = test(state, uuid, layout, flavor, TEST_CALL, shut_off=arguments.shut_off)
        return self._reply(claim, layout, arguments)

    def _reply(
        self, claim: Claim, layout: GuestLayout | None, arguments: TestAdoption
    ) -> replies.Adopted:
        found = () if layout is None else notes(layout, arguments.flavor)
        return replies.Adopted(claim=self._replies.claim(claim), notes=found)
