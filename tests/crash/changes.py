"""Every kind of change, as something that an agent may die of."""

from collections.abc import Callable, Mapping
from typing import Protocol

from tests.crash.scene import Scene
from tests.stream.deed import Deed


class Change(Protocol):
    """One that is under way while the agent dies, and is wanted all the same."""

    def ask(self) -> None:
        """For the first time; the agent does not survive it."""
        ...

    def settle(self, landed: bool) -> None:
        """The agent is dead, and this is in the database or not."""
        ...

    def repeat(self) -> None:
        """Another agent lives: it is done now, once."""
        ...


class Called(Change):
    """A call's."""

    def __init__(self, scene: Scene, deed: Deed) -> None:
        self._scene, self._deed = scene, deed

    def ask(self) -> None:
        self._scene.ledger.begin(self._deed)
        self._scene.home.ask(self._deed.method, **self._deed.document)

    def settle(self, landed: bool) -> None:
        assert (self._deed.operation_id in self._scene.judge().operations) is landed

    def repeat(self) -> None:
        scene, deed = self._scene, self._deed
        answer = scene.do(deed)
        told = scene.ledger.book.live.get(deed.claim_uuid)
        if answer is not None and told is not None:
            assert (answer["uuid"], answer["state"]) == (told.uuid, told.state)
        assert scene.home.invoke(deed.method, **deed.document) == answer


class Audited(Change):
    """An audit's: the domain of a building claim has appeared, that of an active one is gone; one
    that nobody claims has appeared, and another is gone."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._left, self._new = scene.building(), scene.building()
        self._see(self._left.owner_id)
        scene.ledger.book.move(self._left.uuid, "appear", "active")
        scene.ledger.book.domains = self._foreign
        scene.confirm()

    def ask(self) -> None:
        self._see(self._new.owner_id)

    def _see(self, owner: str) -> None:
        """That owner's domain, and one that nobody claims."""
        home = self._scene.home
        self._foreign = {self._scene.writer.uuid(): (1, 32)}
        home.set_domains({owner: (1, 64), **self._foreign})
        home.invoke("update_available_resource")

    def settle(self, landed: bool) -> None:
        if landed:
            self._enter()
        self._scene.judge()

    def repeat(self) -> None:
        scene = self._scene
        if scene.ledger.book.domains != self._foreign:
            self._enter()
        scene.home.invoke("update_available_resource")
        claims = scene.confirm().claims
        assert claims[self._left.uuid]["suspect"] is not None
        assert claims[self._new.uuid]["suspect"] is None

    def _enter(self) -> None:
        self._scene.ledger.book.move(self._new.uuid, "appear", "active")
        self._scene.ledger.book.domains = self._foreign


class Lapsed(Change):
    """An audit's: every lease has run out."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        scene.building()
        scene.building()

    def ask(self) -> None:
        self._scene.home.invoke("advance", seconds=1000)
        self._scene.home.invoke("update_available_resource")

    def settle(self, landed: bool) -> None:
        if landed:
            self._enter()
        self._scene.judge()

    def repeat(self) -> None:
        self.ask()
        self._enter()
        self._scene.confirm()

    def _enter(self) -> None:
        book = self._scene.ledger.book
        for told in book.live.values():
            if told.state == "building":
                book.move(told.uuid, "expire", "released")


class Reserved(Change):
    """The operator's: more is kept back for the host."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._memory_mb = scene.ledger.book.reserved_memory_mb + 100

    def ask(self) -> None:
        self._scene.home.set_reserve(self._memory_mb)

    def settle(self, landed: bool) -> None:
        if landed:
            self._enter()
        self._scene.judge()

    def repeat(self) -> None:
        """The next agent has it from its configuration."""
        self._enter()
        self._scene.wait_right()

    def _enter(self) -> None:
        self._scene.ledger.book.reserved_memory_mb = self._memory_mb


def _called(make: Callable[[Scene], Deed]) -> Callable[[Scene], Change]:
    return lambda scene: Called(scene, make(scene))


def _step(method: str) -> Callable[[Scene], Deed]:
    return lambda scene: scene.writer.step(method, scene.building().uuid)


def _news(vm_state: str) -> Callable[[Scene], Deed]:
    def make(scene: Scene) -> Deed:
        told = scene.building()
        return scene.writer.news(told.uuid, told.owner_id, vm_state)

    return make


#: By name: the cause of the change's commit, and how it is prepared. No two with the same cause are
#: neighbours: the repetition of one would be the death of the next.
CHANGES: Mapping[str, tuple[str, Callable[[Scene], Change]]] = {
    "claim": ("instance_claim", _called(lambda scene: scene.writer.claim())),
    "activate": ("activate_claim", _called(_step("activate_claim"))),
    "renew": ("renew_claim", _called(_step("renew_claim"))),
    "release": ("release_claim", _called(_step("release_claim"))),
    "abort": ("abort_instance_claim", _called(_step("abort_instance_claim"))),
    "delete": ("update_usage", _called(_news("deleted"))),
    "abort unseen": ("abort_instance_claim", _called(lambda scene: scene.writer.abort_unseen())),
    "update": ("update_usage", _called(_news("active"))),
    "build failed": ("build_failed", _called(lambda scene: scene.writer.build_failed())),
    "reserve": ("policy", Reserved),
    "audit": ("audit", Audited),
    "lapse": ("audit", Lapsed),
}
