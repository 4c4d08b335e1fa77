"""Endpoint: dispatches the calls of the RPC server to the endpoint groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import oslo_messaging

from rtagent.audit import Auditor
from rtagent.model.base import Value
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.metric import Metric
from rtagent.ports import Clock, Reporter, ServiceRegistry
from rtagent.rpc.claim_endpoint import AdoptionEndpoint, ClaimEndpoint
from rtagent.rpc.device_endpoint import DeviceEndpoint
from rtagent.rpc.duplicates import Duplicates
from rtagent.rpc.in_flight import InFlight
from rtagent.rpc.methods import VERSION
from rtagent.rpc.move_endpoint import AllocationEndpoint, DeleteAllocation, MoveEndpoint
from rtagent.rpc.node_endpoint import Ask, DrainEndpoint, HostReportEndpoint, NodeEndpoint
from rtagent.rpc.read_endpoint import Answer, DocumentEndpoint, ReadEndpoint
from rtagent.rpc.replies import ClaimReplies, Guest
from rtagent.rpc.serving import Serving
from rtagent.rpc.trust.access import Access, Authenticate, accept_unsigned
from rtagent.tracker import ResourceTracker


class PlacementCalls(Value, frozen=True, kw_only=True):
    """What calls need of Placement.

    :ivar sync: updates Placement and returns the revision that Placement then has; raises
        `PlacementError`.
    :ivar delete_allocation: deletes this node's part of an instance's allocations; raises
        `PlacementError`.
    :ivar confirm: waits until Placement has the allocation of a new claim, if it has to; raises
        `AllocationNotWritten`, with the claim aborted.
    """

    sync: Callable[[], int]
    delete_allocation: DeleteAllocation
    confirm: Callable[[Claim, Call], None]


class Endpoint:
    """Has one public attribute for each method of `METHODS`. A caller may invoke these only.

    Every call is validated, counted and timed (see `Serving`), and served by the group that
    declares its method.
    """

    target = oslo_messaging.Target(version=VERSION)

    def __init__(
        self,
        tracker: ResourceTracker,
        auditor: Auditor,
        registry: ServiceRegistry,
        clock: Clock,
        reporter: Reporter,
        version: str,
        in_flight: InFlight,
        guest: Guest,
        placement: PlacementCalls,
        settle: Callable[[Claim], None],
        duplicates: Duplicates,
        report_host: Ask,
        document: Answer,
        metrics: Callable[[], Sequence[Metric]] = tuple,
        authenticate: Authenticate = accept_unsigned,
        access: Access | None = None,
    ) -> None:
        """:param version: of the software. :param guest: makes the documents that enact a claim.
        :param settle: prepares the host for a domain that starts; or raises `Unavailable`.
        :param duplicates: whether another agent serves this name. :param access: see `Serving`.
        :param document: answers a read of the read API. :param report_host: reports the host.
        :param metrics: returns what was measured. :param authenticate: see `Authenticate`.
        """
        claim_replies = ClaimReplies(guest, settle, tracker.snapshot, placement.confirm)
        groups = (
            ClaimEndpoint(tracker, auditor, claim_replies),
            MoveEndpoint(tracker, auditor, claim_replies),
            DeviceEndpoint(tracker, claim_replies),
            AllocationEndpoint(tracker, placement.delete_allocation),
            AdoptionEndpoint(tracker, auditor, claim_replies),
            ReadEndpoint(tracker, claim_replies, metrics),
            NodeEndpoint(
                tracker, auditor, registry, clock, version, placement.sync, duplicates.me.agent_uuid
            ),
            DrainEndpoint(tracker),
            DocumentEndpoint(document),
            HostReportEndpoint(report_host),
        )
        check = partial(duplicates.check, tracker.snapshot)
        Serving(in_flight, clock, reporter, check, authenticate, access).add(self, groups)
