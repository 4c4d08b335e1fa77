"""Adoptions: makes claims of domains that have none."""

from __future__ import annotations

from rtagent.lifecycle.draining import check_not_draining
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.guest_layout import GuestLayout
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock
from rtagent.reconcile.adoption import adopt
from rtagent.state.operations import Operations


class Adoptions:
    """Thread-safe. Both methods take the domain as it was just read; None: it is not here."""

    def __init__(self, operations: Operations, clock: Clock) -> None:
        self._operations, self._clock = operations, clock

    def adopt(
        self,
        domain_uuid: str,
        layout: GuestLayout | None,
        flavor: Flavor | None,
        call: Call,
        *,
        shut_off: bool = False,
    ) -> Claim:
        """Make a claim of a domain that has none, with exactly what the domain has.

        :param flavor: in place of the one in its metadata.
        :param shut_off: adopt the domain even if it is shut off.
        :raises DomainNotAdoptable: ClaimConflict: ClaimExpired: NodeDraining: Unavailable:
        """
        return self._operations.create(
            lambda state, now: adopt(
                state, domain_uuid, layout, flavor, call, now, shut_off=shut_off
            ),
            call,
        )

    def test(
        self,
        state: NodeState,
        domain_uuid: str,
        layout: GuestLayout | None,
        flavor: Flavor | None,
        call: Call,
        *,
        shut_off: bool = False,
    ) -> Claim:
        """Return the claim that `adopt` would make in a state. Changes nothing.

        :param call: its operation id is the uuid of the claim in the answer.
        :raises DomainNotAdoptable: ClaimConflict: NodeDraining: Unavailable:
        """
        self._operations.check_creation()
        check_not_draining(state)
        now = self._clock.now()
        granted = adopt(state, domain_uuid, layout, flavor, call, now, shut_off=shut_off)
        return granted.claims[0]
