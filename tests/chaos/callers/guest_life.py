"""The life of a guest: it is built, runs, gets and loses devices, moves, and ends."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.chaos.callers import flavors
from tests.chaos.callers.domains import Domains
from tests.chaos.callers.moves import Moves
from tests.chaos.callers.step import SCHEDULER, Life, Part, Step

#: The share of guests without special requirements that are built on a host with QEMU.
PLAIN = 0.7


class GuestLife:
    """One guest, and the claims that it has.

    :ivar host: where it is. :ivar claim: its claim there. :ivar attached: its attach claims.
    """

    def __init__(self, rng: random.Random, hosts: Sequence[str], domains: Domains) -> None:
        self.rng, self.hosts, self.domains = rng, hosts, domains
        self.host = rng.choice(hosts)
        # The host with QEMU has no devices for guests, and few CPUs.
        plain = not domains.is_simulated(self.host) and rng.random() < PLAIN
        self.instance = flavors.instance(rng, plain=plain)
        self.claim: Mapping[str, Any] = {}
        self.attached: list[Mapping[str, Any]] = []

    @property
    def uuid(self) -> str:
        return str(self.instance["uuid"])

    def run(self) -> Life:
        """Yield the calls of the whole life."""
        built = yield from self._build()
        if not built:
            return
        chance = self.rng.random()
        if chance < 0.05:
            return  # given up: the lease ends the claim
        if chance < 0.15:
            yield self.step("abort_instance_claim", claim_uuid=self.claim["uuid"])
            return
        if chance < 0.3:
            yield self.step("renew_claim", claim_uuid=self.claim["uuid"])
        active = yield from self._activate()
        if active:
            for _ in range(self.rng.randrange(6)):
                part = self.rng.choice(self._parts())
                alive = yield from part()
                if not alive:
                    break
            yield from self._end()

    def step(
        self, method: str, /, *, host: str = "", creates: bool = False, **arguments: Any
    ) -> Step:
        """Make a call that changes state, with an operation id of its own."""
        operation_id = flavors.new_uuid(self.rng)
        return Step(
            host=host or self.host,
            method=method,
            arguments=arguments,
            operation_id=operation_id,
            creates=creates,
        )

    def read(self, method: str, **arguments: Any) -> Step:
        """Make a call that changes nothing."""
        return Step(host=self.host, method=method, arguments=arguments)

    def free(self, claim: Mapping[str, Any]) -> Step:
        """Make the call that ends an attach claim."""
        ids = {"instance_uuid": self.uuid, "claim_uuid": claim["uuid"]}
        return self.step("free_pci_device_allocations_for_instance", **ids)

    # -- parts -------------------------------------------------------------------------------------

    def _build(self) -> Part:
        """Make the claim, at a host that was drawn or selected. Return whether it was granted."""
        if self.rng.random() < 0.1:
            yield self.read("test_claim", instance=self.instance)
        step = self.step("instance_claim", creates=True, instance=self.instance)
        if self.rng.random() < 0.3:
            selected = yield from self._select()
            if selected is None:
                return False
            self.host = selected["host"]
            step = Step(
                host=self.host,
                method="instance_claim",
                arguments={"instance": self.instance, "limits": selected["limits"]},
                operation_id=selected["operation_id"],
                creates=True,
            )
        outcome = yield step
        if not outcome.ok and "limits" in step.arguments and self.rng.random() < 0.5:
            forgotten = {"operation_id": step.operation_id}
            yield Step(host=SCHEDULER, method="forget_claim", arguments=forgotten)
        self.claim = outcome.reply if outcome.ok else {}
        return outcome.ok

    def _select(self) -> Part:
        """Return the selection of a scheduler, or None."""
        outcome = yield Step(
            host=SCHEDULER,
            method="select_destinations",
            arguments={
                "request_spec": {"flavor": self.instance["flavor"]},
                "instance_uuids": [self.uuid],
            },
        )
        return outcome.reply["selections"][0]["selected"] if outcome.ok else None

    def _activate(self) -> Part:
        outcome = yield self.step("activate_claim", claim_uuid=self.claim["uuid"])
        if outcome.ok:
            self.claim = outcome.reply
            self.start()
        return outcome.ok

    def _parts(self) -> list[Callable[[], Part]]:
        moves = Moves(self)
        return [
            self._attach,
            self._detach,
            self._update,
            self._renew,
            self._read,
            moves.cold,
            moves.live,
            moves.evacuate,
        ]

    def _attach(self) -> Part:
        """Attach a device, or give it up before it is allocated."""
        claimed = yield self.step(
            "claim_pci_devices",
            creates=True,
            instance=self.instance,
            pci_requests=[flavors.device_request(self.rng)],
        )
        if not claimed.ok:
            return True
        ids = {"instance_uuid": self.uuid, "claim_uuid": claimed.reply["uuid"]}
        if self.rng.random() < 0.2:
            yield self.step("unclaim_pci_devices", **ids)
            return True
        allocated = yield self.step("allocate_pci_devices_for_instance", **ids)
        if allocated.ok:
            self.attached.append(allocated.reply)
            self.start()
        return True

    def _detach(self) -> Part:
        """Detach the devices of one attach claim."""
        if self.attached:
            claim = self.attached.pop(self.rng.randrange(len(self.attached)))
            self.start()
            yield self.free(claim)
        return True

    def _update(self) -> Part:
        update = {"uuid": self.uuid, "vm_state": self.rng.choice(("active", "stopped"))}
        yield self.step("update_usage", instance=update)
        return True

    def _renew(self) -> Part:
        yield self.step("renew_claim", claim_uuid=self.claim["uuid"])
        return True

    def _read(self) -> Part:
        method = self.rng.choice(("get_claim", "get_claims_for_instance", "get_node", "ping"))
        arguments = {
            "get_claim": {"claim_uuid": self.claim["uuid"]},
            "get_claims_for_instance": {"instance_uuid": self.uuid},
        }
        yield self.read(method, **arguments.get(method, {}))
        return True

    def _end(self) -> Part:
        """Stop the guest, and release its claims; sometimes the guest runs on for a while."""
        for claim in self.attached:
            yield self.free(claim)
        self.attached.clear()
        runs_on = self.rng.random() < 0.1
        if not runs_on:
            self.stop()
        if self.rng.random() < 0.3:
            gone = {"uuid": self.uuid, "vm_state": "deleted"}
            yield self.step("update_usage", instance=gone)
        else:
            yield self.step("release_claim", claim_uuid=self.claim["uuid"])
        self.stop()

    # -- domains -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Run the domain as the claims say."""
        self.domains.start(self.host, self.claim, self.attached)

    def stop(self) -> None:
        self.domains.stop(self.host, self.uuid)
