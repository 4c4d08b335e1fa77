"""python -m tests.crash.pinner URL FAILPOINT SEED: takes CPUs and gives them back until it dies.

Each line that it prints was answered: ``asked ID``, ``took ID CPUS`` or ``gave ID``.
"""

import random
import sys

from rtagent.db.engine import open_engine
from rtagent.db.failpoints import Failpoint, FailpointStore
from rtagent.db.migrate import sync
from rtagent.db.store import SqlStore
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.model.policy import Policy
from tests.builders import PINNED, PINNING, call, request, uid
from tests.unit.test_kernel import track

POLICY = Policy(numa=PINNING)


def main(url: str, failpoint: str, seed: int) -> None:
    engine = open_engine(url, 5)
    sync(engine)
    point = Failpoint.parse(failpoint)
    store = FailpointStore(SqlStore(engine, point.passed), point)
    tracker = track(store)
    tracker.set_policy(POLICY)
    rng = random.Random(seed)
    for number in range(seed * 10_000, seed * 10_000 + 3000):
        held = sorted(tracker.snapshot().claims)
        if held and rng.random() < 0.4:
            say("giving", held[0])
            tracker.release_claim(held[0], call("release_claim", uid(number + 6000)))
            say("gave", held[0])
            continue
        policy = rng.choice(["prefer", "isolate"])
        asked = request(
            rng.randint(1, 2),
            64,
            owner=uid(number),
            claim=uid(number + 3000),
            extra_specs={**PINNED, "hw:cpu_thread_policy": policy},
        )
        say("asked", asked.claim_uuid)
        try:
            claim = tracker.instance_claim(asked, call(operation_id=asked.claim_uuid))
        except ComputeResourcesUnavailable:
            continue
        say("took", claim.uuid, *sorted(claim.numa_topology.taken))


def say(*words: object) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
