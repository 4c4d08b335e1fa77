"""NovaNode: the embedded tracker of one of nova-compute's nodes."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from rtagent.claims import instance_claim, release_claims, update_usage
from rtagent.conf.settings import Settings
from rtagent.embedded import SystemClock, open_node
from rtagent.errors import HypervisorUnavailable
from rtagent.identity import machine
from rtagent.identity.enrollment import Claimant
from rtagent.identity.node_identity import GivenNodeIdentity
from rtagent.lifecycle.adopt_claim import adopt_claim, adopt_mdevs
from rtagent.lifecycle.attach import claim_pci_devices, give_back_devices
from rtagent.lifecycle.moves import Outcome, move_claim, settle_move
from rtagent.lifecycle.placed_guests import follow_configuration, follows_configuration
from rtagent.model.assignment import AssignedQuantity, AssignedResource, PmemNamespace
from rtagent.model.change import Call
from rtagent.model.claim import ACTIVE, INCOMING, LIVE_MIGRATION, OUTGOING, Claim
from rtagent.model.guest import AdoptRequest
from rtagent.model.migration import MigrationFacts, MoveRequest
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.observation import Observation
from rtagent.model.owners import main_claims
from rtagent.model.request import AttachRequest, BuildRequest, InstanceUpdate
from rtagent.nova import driver_report
from rtagent.nova.driver_report import DriverHost
from rtagent.nova.host_mdevs import HostMdevs
from rtagent.placement.adoption import Adoption, adoption_of
from rtagent.ports import Reporter
from rtagent.service.assembly import database

#: The outcome of a move whose instance is here, by the state of its claim.
_OUTCOMES: Mapping[str, Outcome] = {INCOMING: "arrived", OUTGOING: "reverted"}
#: The actor of all changes.
ACTOR = "nova-compute"


class NovaNode:
    """Claims, gives back and adopts for Nova's tracker, which calls it under its own lock.

    :ivar report: the driver's last report. :ivar host: what was observed with it.
    :ivar mdevs: the mediated devices that the driver listed last.
    :ivar stored: the node's database. :ivar embedded: the node itself.
    :ivar is_reconciled: the claims are as Nova's database says. False until the first audit, and
        after one that has failed while it released and adopted them.
    """

    def __init__(
        self, compute_node: Any, settings: Settings, reporter: Reporter | None = None
    ) -> None:
        """Open the node's store and become its writer.

        :param compute_node: Nova's ComputeNode, saved. :param reporter: None: nothing is reported.
        :raises IdentityError: StoreUnavailable:
        """
        node = Node(
            uuid=compute_node.uuid,
            host=compute_node.host,
            hypervisor_hostname=compute_node.hypervisor_hostname,
            host_ip=settings.default.my_ip,
        )
        state_path = settings.default.state_path
        self._settings = settings
        self.host = DriverHost(node.hypervisor_hostname, self._observation)
        self._namespaces: tuple[PmemNamespace, ...] = ()
        self.report: Mapping[str, Any] = {}
        self.mdevs = HostMdevs()
        self._contexts: Mapping[str, int] = {}
        self.is_reconciled = False
        clock = SystemClock()
        Path(state_path).mkdir(mode=0o750, parents=True, exist_ok=True)
        self.stored = database(settings)
        claimant = Claimant(
            node=node,
            writer=machine.writer(state_path),
            compute_id=f"{state_path}/{node.uuid}.sqlite",
            service_down_time=settings.default.service_down_time,
        )
        self.embedded = open_node(
            settings,
            self.host,
            self.stored.store,
            clock,
            identity=GivenNodeIdentity(claimant),
            reporter=reporter,
        )
        self.embedded.closing.callback(self.stored.close)

    def close(self) -> None:
        """Close the store."""
        self.embedded.close()

    @property
    def state(self) -> NodeState:
        """The last published state."""
        return self.embedded.state

    @property
    def has_cells(self) -> bool:
        """Whether the driver reports NUMA cells."""
        return bool(self.report.get("numa_topology"))

    def mains(self, owner_id: str) -> tuple[Claim, ...]:
        """Return the claims of an instance, without those of attached devices."""
        return main_claims(self.state.claims_of(owner_id))

    @property
    def providers(self) -> dict[str, str]:
        """The uuids of Placement's providers of devices, by the suffix of their names."""
        return dict(adoption_of(self.state).children)

    # -- the host -------------------------------------------------------------------------------

    def observe(
        self,
        settings: Settings,
        report: Mapping[str, Any],
        mdevs: HostMdevs,
        contexts: Mapping[str, int],
    ) -> None:
        """Audit the host, and let the claims follow Nova's options, by which the driver makes the
        domains.

        :param report: of the virt driver's ``get_available_resource``. :param mdevs: of the host.
        :param contexts: as of `driver_report.topology`.
        """
        self._settings, self.report, self.mdevs = settings, report, mdevs
        self._contexts = contexts
        self._audit()
        if not follows_configuration(self.state):
            call = _call("follow_configuration")
            self.embedded.tracker.execute(follow_configuration, call)

    def set_mdevs(self, mdevs: HostMdevs) -> None:
        """Record the mediated devices that exist and can be created."""
        if mdevs != self.mdevs:
            self.mdevs = mdevs
            self._audit()

    def namespaces(self) -> tuple[PmemNamespace, ...]:
        """Return the host's persistent memory, as the driver listed it last."""
        return self._namespaces

    def set_namespaces(self, resources: Iterable[Any]) -> None:
        """Record the persistent memory among the resources of the driver's provider tree."""
        found = driver_report.namespaces(resources)
        if found != self._namespaces:
            self._namespaces = found
            self._audit()

    def set_ratios(self, ratios: Mapping[str, float]) -> None:
        """Record Placement's allocation ratios, by the option of each."""
        default = replace(self._settings.default, **ratios)
        if default != self._settings.default:
            self._settings = replace(self._settings, default=default)
            self._apply()

    def set_providers(self, children: Mapping[str, str]) -> None:
        """Record which uuids Placement's providers of devices have, by suffix."""
        if children != self.providers:
            self.embedded.adopt(Adoption(node=self.state.node.uuid, children=children))

    def _audit(self) -> None:
        tracker = self.embedded.tracker
        if tracker.stale:
            tracker.recover()
        self._apply()
        # It reads the report, so that no claim is granted on one that cannot be read.
        self.embedded.auditor.run("host")
        self._apply()  # provider files may describe what was not known before

    def _apply(self) -> None:
        """Put the settings in force, with the mediated devices that the driver listed."""
        self.embedded.apply(self.mdevs.settings(self._settings))

    def _observation(self) -> Observation:
        if not self.report:
            raise HypervisorUnavailable("the virt driver has reported nothing yet")
        named = driver_report.interfaces(self.state.policy.pci.specs)
        return Observation(
            domains={},
            has_domains=False,  # Nova's database says which guests are here
            complete=True,
            topology=driver_report.topology(self.report, self._contexts),
            devices=self.mdevs.devices(driver_report.devices(self.report, named)),
            mdevs=self.mdevs.mdevs,
            mdevs_of_others=True,
            namespaces=self._namespaces,
        )

    # -- claims ---------------------------------------------------------------------------------

    def build(self, request: BuildRequest, quantities: Sequence[AssignedQuantity] = ()) -> Claim:
        """Claim for an instance that is built here. What it had here before is released."""
        self.release(request.instance.uuid)
        call = _call("instance_claim")
        return self.embedded.tracker.create(
            instance_claim, call, request, quantities=quantities, active=True
        )

    def move(self, request: MoveRequest, quantities: Sequence[AssignedQuantity]) -> Claim:
        """Claim for an instance that is to arrive. What an earlier move has left is released.

        An instance that is here already may have only the claim with which it arrived: Nova says
        later that its move is confirmed.
        """
        owner_id, node = request.build.instance.uuid, self.state.node
        mains = self.mains(owner_id)
        migration = request.migration
        is_here = (
            isinstance(migration, MigrationFacts)
            and migration.source_node == node.hypervisor_hostname
        )
        if is_here and mains and all(claim.state == INCOMING for claim in mains):
            self.settle(mains[-1])
            left = list(mains[:-1])
        else:
            left = [claim for claim in mains if claim.state == INCOMING]
            left += [claim for claim in mains if claim not in left][1:]
        self.release(owner_id, left)
        call = _call("move_claim")
        return self.embedded.tracker.create(move_claim, call, request, quantities=quantities)

    def attach(self, request: AttachRequest, cells: Collection[int]) -> Claim:
        """Claim devices for an instance. :param cells: of the host; empty: it has none."""
        call = _call("claim_pci_devices")
        return self.embedded.tracker.create(
            claim_pci_devices, call, request, active=True, cells=cells
        )

    def adopt(self, request: AdoptRequest) -> Claim:
        """Record what an instance has here already."""
        return self.embedded.tracker.change(adopt_claim, _call("adopt_claim"), request)

    def adopt_mdevs(self, claim: Claim, mdevs: Iterable[AssignedResource]) -> None:
        """Record the mediated devices of a claim's guest, in place of those that the claim has.

        :raises UnitConflict: another owner holds one of them.
        """
        call = _call("adopt_mdevs")
        self.embedded.tracker.change(adopt_mdevs, call, claim.uuid, tuple(mdevs))

    def release(self, owner_id: str, claims: Collection[Claim] | None = None) -> None:
        """Release claims of an instance; None: all."""
        if claims is None:
            claims = self.state.claims_of(owner_id)
        if claims:
            uuids = [claim.uuid for claim in claims]
            self.embedded.tracker.execute(release_claims, _call("release_claims"), owner_id, uuids)

    def give_back(self, claim: Claim, addresses: Sequence[str]) -> None:
        """Give back devices of a claim."""
        self.embedded.tracker.execute(
            give_back_devices, _call("give_back_devices"), claim.owner_id, addresses, claim.uuid
        )

    def update(self, facts: InstanceUpdate) -> None:
        """Record an instance's new state. What the claims have already is not written again."""
        claims = self.state.claims_of(facts.uuid)
        if all(claim.state == ACTIVE and _has(claim, facts) for claim in claims):
            return
        self.embedded.tracker.execute(update_usage, _call("update_usage"), facts)

    def settle(self, claim: Claim) -> None:
        """Note that the instance of a main claim is here, whatever state a move left it in.

        :raises IllegalTransition: the move had another outcome.
        """
        outcome = _OUTCOMES.get(claim.state)
        record = self.state.migrations.get(claim.migration_uuid or "")
        if outcome is None or record is None:
            return
        names = MigrationFacts.__struct_fields__
        facts = MigrationFacts(**{name: getattr(record, name) for name in names})
        call = _call("settle_move")
        self.embedded.tracker.execute(settle_move, call, claim.owner_id, facts, outcome)


def _has(claim: Claim, facts: InstanceUpdate) -> bool:
    """Return whether a claim has the state of its instance already."""
    known, update = asdict(claim.instance), asdict(facts)
    return all(
        known[name] == value
        for name, value in update.items()
        if name in known and (value is not None or name == "task_state")
    )


def awaits_devices(claim: Claim) -> bool:
    """Return whether Nova has not claimed the devices of a live migration's claim yet.

    Nova claims them one by one, after the rest.
    """
    return claim.state == INCOMING and claim.kind == LIVE_MIGRATION


def _call(method: str) -> Call:
    return Call(method=method, operation_id=str(uuid.uuid4()), digest="", actor=ACTOR)
