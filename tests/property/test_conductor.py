"""Random operations on servers, with conductors killed, answers lost and hosts switched off.

Whatever happens: at the end each server has one guest, one claim and one allocation, or is on no
host, and nothing else is on the hosts.
"""

import random

from msgspec.structs import replace

from rtagent.conductor.operations import STATES
from rtagent.errors import AgentUnreachable, RtAgentError
from rtagent.model.server import Server
from tests.support.cloud import LARGE, SMALL, Cloud, spec
from tests.support.cloud_parts import HOSTS, Faults, Killed
from tests.support.hosts import uid

#: The method of an operation, by its kind; a resize may be one of two.
METHODS = {"live-migration": "live_migrate", "evacuation": "evacuate"}
ORDERS = ("define", "start", "live_migrate")
SERVERS = tuple(uid(number) for number in (1, 2, 3))


class Clouds:
    """A cloud on which random operations are made."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.trace = rng, list[str]()
        self.cloud = Cloud(placement=True, reuse=rng.random() < 0.5, shared=rng.random() < 0.5)
        self.cloud.options = replace(
            self.cloud.options, allow_resize_to_same_host=rng.random() < 0.3
        )

    def turn(self) -> None:
        """Make one operation with a random fault; then everything that was interrupted."""
        cloud, server = self.cloud, self.rng.choice(SERVERS)
        self.rng.shuffle(cloud.scheduler.order)
        known = {each.uuid: each for each in cloud.records.servers()}
        name = self._choice(known.get(server))
        if name == "evacuate" and (place := known[server].place):
            cloud.switch_off(place.host)
        cloud.faults = self._faults()
        refusing = self.rng.sample(HOSTS, self.rng.choice((0, 0, 0, 1, 2)))
        cloud.enactor.refuses = {host: self.rng.choice(ORDERS) for host in refusing}
        self.trace.append(f"{name} {server[-1]} {cloud.faults}")
        self._attempt(name, server)
        self._settle()

    def _choice(self, server: Server | None) -> str:
        """Choose a method that the state of the server allows, most of the time."""
        if server is None:
            return "build"
        kinds = [kind for kind, allowed in STATES.items() if server.vm_state in allowed]
        if not kinds or self.rng.random() < 0.1:
            return "delete"
        kind = self.rng.choice(kinds if self.rng.random() < 0.95 else list(STATES))
        if kind == "resize" and self.rng.random() < 0.5:
            return "cold_migrate"
        return METHODS.get(kind, kind)

    def _faults(self) -> Faults:
        point = self.rng.randrange(70)
        if self.rng.random() < 0.5:
            return Faults(kill=point)
        lost = AgentUnreachable(where="it", why="no reply", remedy="wait")
        return Faults(errors={point: lost, self.rng.randrange(70): lost})

    def _attempt(self, name: str, server: str) -> None:
        conductor = self.cloud.conductor()
        try:
            if name == "build":
                conductor.build(spec(self.rng.choice((SMALL, LARGE))), server_uuid=server)
            elif name == "resize":
                conductor.resize(server, self.rng.choice((SMALL, LARGE)))
            else:
                getattr(conductor, name)(server)
        except (Killed, RtAgentError) as error:
            self.trace.append(f"  {type(error).__name__}: {error}")

    def _settle(self) -> None:
        """Let conductors resume; some are killed, too. In the end everything is reachable."""
        cloud = self.cloud
        while self.rng.random() < 0.4:
            cloud.faults = Faults(kill=self.rng.randrange(30))
            try:
                cloud.resume()
            except Killed as killed:
                self.trace.append(f"  resume: {killed}")
        cloud.faults, cloud.enactor.refuses = Faults(), {}
        for host in list(cloud.down):
            cloud.switch_on(host)
        for _ in range(2):  # what the first one owes is done by the second
            failures = cloud.resume()
            self.trace += [f"  resumed: {each}" for each in failures]
        self._start_what_was_switched_off()
        cloud.check()

    def _start_what_was_switched_off(self) -> None:
        """A host that is back starts its guests, unless they were evacuated."""
        for server in self.cloud.records.servers():
            place = server.place
            if place is not None and server.runs:
                hypervisor = self.cloud.hosts[HOSTS.index(place.host)].world
                flavor = server.spec.flavor
                hypervisor.start_domain(server.uuid, flavor.vcpus, flavor.memory_mb)


def test_random_operations_leave_one_guest_and_one_claim(fast: bool, long: bool):
    for seed in range(400 if long else 4 if fast else 12):
        run(seed)


def run(seed: int) -> None:
    clouds = Clouds(random.Random(seed))
    for _ in range(15):
        try:
            clouds.turn()
        except Exception as error:
            error.add_note("\n".join((f"seed {seed}", *clouds.trace)))
            raise
    conductor = clouds.cloud.conductor()
    for server in conductor.servers():
        conductor.delete(server.uuid)
    clouds.cloud.check()
