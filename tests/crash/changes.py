"""Every kind of change of a node's state, during which an agent is killed."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tests.crash.scenario import Scenario
from tests.support.workload.ledger import Operation


class Change(Protocol):
    """A change during which the agent is killed, and which is then repeated."""

    def ask(self) -> None:
        """Request the change; the agent is killed meanwhile."""
        ...

    def settle(self, landed: bool) -> None:
        """Check the database of the dead agent. :param landed: whether it must have the change."""
        ...

    def repeat(self) -> None:
        """Request the change from the next agent process: it must be made exactly once."""
        ...


class Called(Change):
    """Change of one RPC call."""

    def __init__(self, scenario: Scenario, operation: Operation) -> None:
        self._scenario, self._deed = scenario, operation

    def ask(self) -> None:
        self._scenario.ledger.begin(self._deed)
        self._scenario.home.ask(self._deed.method, **self._deed.document)

    def settle(self, landed: bool) -> None:
        assert (self._deed.operation_id in self._scenario.check_database().operations) is landed

    def repeat(self) -> None:
        scenario, operation = self._scenario, self._deed
        answer = scenario.do(operation)
        known = scenario.ledger.state.live.get(operation.claim_uuid)
        if answer is not None and known is not None:
            assert (answer["uuid"], answer["state"]) == (known.uuid, known.state)
        again = scenario.home.invoke(operation.method, **operation.document)
        assert _without_audits(again) == _without_audits(answer)


class ClaimedTogether(Change):
    """Change of a call that makes several claims: the database has all of them, or none."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._builds = [scenario.factory.claim() for _ in range(3)]

    def ask(self) -> None:
        for build in self._builds:
            self._scenario.ledger.begin(build)
        self._scenario.home.ask("instance_claims", **self._document)

    @property
    def _document(self) -> dict[str, Any]:
        return {"claims": [build.document for build in self._builds]}

    def settle(self, landed: bool) -> None:
        made = self._scenario.check_database().operations
        assert [build.operation_id in made for build in self._builds] == [landed] * 3

    def repeat(self) -> None:
        answers = self._claim()
        for build, answer in zip(self._builds, answers, strict=True):
            assert (answer["uuid"], answer["state"]) == (build.operation_id, "building")
            self._scenario.ledger.done(build)
        assert list(map(_without_audits, self._claim())) == list(map(_without_audits, answers))

    def _claim(self) -> list[dict[str, Any]]:
        reply = self._scenario.home.invoke("instance_claims", **self._document)
        return [answer["claim"] for answer in reply["answers"]]


def _without_audits(answer: Any) -> Any:
    """Return an answer without what an audit between two calls may change: it can find that an
    active claim has no domain."""
    audited = {"suspect", "revision", "updated_at"}
    if not isinstance(answer, dict):
        return answer
    return {name: value for name, value in answer.items() if name not in audited}


class Audited(Change):
    """Change of an audit that finds four differences.

    The domain of a building claim has appeared and that of an active claim is gone; one domain
    without a claim has appeared and another is gone.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._left, self._new = scenario.build(), scenario.build()
        self._see(self._left.owner_id)
        scenario.ledger.state.transition(self._left.uuid, "appear", "active")
        scenario.ledger.state.domains = self._foreign
        scenario.check()

    def ask(self) -> None:
        self._see(self._new.owner_id)

    def _see(self, owner: str) -> None:
        """Run the domain of that owner and one without a claim, then audit."""
        home = self._scenario.home
        self._foreign = {self._scenario.factory.uuid(): (1, 32)}
        home.set_domains({owner: (1, 64), **self._foreign})
        home.invoke("update_available_resource")

    def settle(self, landed: bool) -> None:
        if landed:
            self._enter()
        self._scenario.check_database()

    def repeat(self) -> None:
        scenario = self._scenario
        if scenario.ledger.state.domains != self._foreign:
            self._enter()
        scenario.home.invoke("update_available_resource")
        claims = scenario.check().claims
        assert claims[self._left.uuid]["suspect"] is not None
        assert claims[self._new.uuid]["suspect"] is None

    def _enter(self) -> None:
        self._scenario.ledger.state.transition(self._new.uuid, "appear", "active")
        self._scenario.ledger.state.domains = self._foreign


class Lapsed(Change):
    """Change of an audit after all leases have expired."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        scenario.build()
        scenario.build()

    def ask(self) -> None:
        self._scenario.home.invoke("advance", seconds=1000)
        self._scenario.home.invoke("update_available_resource")

    def settle(self, landed: bool) -> None:
        if landed:
            self._enter()
        self._scenario.check_database()

    def repeat(self) -> None:
        self.ask()
        self._enter()
        self._scenario.check()

    def _enter(self) -> None:
        expected = self._scenario.ledger.state
        for claim in expected.live.values():
            if claim.state == "building":
                expected.transition(claim.uuid, "expire", "released")


class Reserved(Change):
    """Change of the policy: the operator reserves more memory for the host."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._memory_mb = scenario.ledger.state.reserved_memory_mb + 100

    def ask(self) -> None:
        self._scenario.home.set_reserve(self._memory_mb)

    def settle(self, landed: bool) -> None:
        if landed:
            self._enter()
        self._scenario.check_database()

    def repeat(self) -> None:
        """Nothing to request: the next agent process reads it from its configuration."""
        self._enter()
        self._scenario.wait_consistent()

    def _enter(self) -> None:
        self._scenario.ledger.state.reserved_memory_mb = self._memory_mb


def _called(make: Callable[[Scenario], Operation]) -> Callable[[Scenario], Change]:
    return lambda scenario: Called(scenario, make(scenario))


def _step(method: str) -> Callable[[Scenario], Operation]:
    return lambda scenario: scenario.factory.step(method, scenario.build().uuid)


def _update(vm_state: str) -> Callable[[Scenario], Operation]:
    def make(scenario: Scenario) -> Operation:
        claim = scenario.build()
        return scenario.factory.update(claim.uuid, claim.owner_id, vm_state)

    return make


#: By name: the cause of the change's commit, and how it is prepared. The next change has another
#: cause, unless it is an audit: its failpoint would stop the repetition of the first.
CHANGES: Mapping[str, tuple[str, Callable[[Scenario], Change]]] = {
    "claim": ("instance_claim", _called(lambda scenario: scenario.factory.claim())),
    "activate": ("activate_claim", _called(_step("activate_claim"))),
    "renew": ("renew_claim", _called(_step("renew_claim"))),
    "release": ("release_claim", _called(_step("release_claim"))),
    "claims": ("instance_claim", ClaimedTogether),
    "abort": ("abort_instance_claim", _called(_step("abort_instance_claim"))),
    "delete": ("update_usage", _called(_update("deleted"))),
    "build failed": ("build_failed", _called(lambda scenario: scenario.factory.build_failed())),
    "reserve": ("policy", Reserved),
    "abort unknown": (
        "abort_instance_claim",
        _called(lambda scenario: scenario.factory.abort_unknown()),
    ),
    "update": ("update_usage", _called(_update("active"))),
    "audit": ("audit", Audited),
    "lapse": ("audit", Lapsed),
}
