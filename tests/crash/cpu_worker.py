"""Worker process that claims and releases CPUs until it is killed.

It prints a line before each call (``claiming ID``, ``releasing ID``) and after each answer
(``claimed ID CPUS``, ``released ID``).
"""

import random
from collections.abc import Sequence

from rtagent.claims import instance_claim, release_claim
from rtagent.db.engine import open_engine
from rtagent.db.migrate import sync
from rtagent.db.store import SqlStore
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.model.policy import Policy
from rtagent.testing.failpoints import Failpoint, FailpointStore
from tests.support.hosts import PINNED, PINNING, call, request, uid
from tests.support.trackers import tracker_on

POLICY = Policy(numa=PINNING)


def main(arguments: Sequence[str]) -> None:
    """Work until the process is killed. :param arguments: URL, failpoint, and a seed."""
    url, failpoint, seed = arguments[0], arguments[1], int(arguments[2])
    engine = open_engine(url, 15)
    sync(engine)
    point = Failpoint.parse(failpoint)
    store = FailpointStore(SqlStore(engine, point.passed), point)
    tracker = tracker_on(store)
    tracker.set_policy(POLICY)
    rng = random.Random(seed)
    for number in range(seed * 10_000, seed * 10_000 + 3000):
        held = sorted(tracker.snapshot().claims)
        if held and rng.random() < 0.4:
            report("releasing", held[0])
            tracker.execute(release_claim, call("release_claim", uid(number + 6000)), held[0])
            report("released", held[0])
            continue
        policy = rng.choice(["prefer", "isolate"])
        wanted = request(
            rng.randint(1, 2),
            64,
            owner=uid(number),
            extra_specs={**PINNED, "hw:cpu_thread_policy": policy},
        )
        report("claiming", uid(number + 3000))
        try:
            claim = tracker.create(instance_claim, call(operation_id=uid(number + 3000)), wanted)
        except ComputeResourcesUnavailable:
            continue
        report("claimed", claim.uuid, *sorted(claim.numa_topology.taken))


def report(*words: object) -> None:
    print(*words, flush=True)
