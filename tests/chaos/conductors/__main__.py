"""A conductor that makes random operations, until it is killed or asked to end.

``python -m tests.chaos.conductors --config-file FILE SEED NUMBER``: all conductors have the same
servers. Each one also takes over what others seem to have given up.
"""

import random
import sys
import time
from contextlib import suppress
from pathlib import Path

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
from rtagent.conductor.conductor import Conductor
from rtagent.conductor.operations import STATES
from rtagent.errors import RtAgentError
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec, ServerOperation
from tests.chaos.conductors.opening import ENDS, STEP, opened

#: With fewer servers, another one is built.
SERVERS = 3
FLAVORS = tuple(Flavor(vcpus=size, memory_mb=256 * size, root_gb=1) for size in (1, 2))
#: The method of an operation, by its kind.
METHODS = {"live-migration": "live_migrate"}


def act(conductor: Conductor, rng: random.Random) -> None:
    """Build a server, or make an operation that the state of one allows."""
    servers = conductor.servers()
    if len(servers) < SERVERS:
        conductor.build(RequestSpec(flavor=rng.choice(FLAVORS)), name="web")
        return
    server = rng.choice(servers)
    uuid = server.uuid
    kinds = sorted(kind for kind, states in STATES.items() if server.vm_state in states)
    kind = rng.choice([*kinds, "delete"])
    if kind == "delete" and rng.random() < 0.2:
        conductor.force_delete(uuid, "chaos")
    elif kind == "evacuation":  # an operator may be wrong: the guest runs until it is cleared
        conductor.evacuate(uuid, host_is_down=True)
    elif kind == "resize":
        if rng.random() < 0.5:
            conductor.cold_migrate(uuid)
        else:
            conductor.resize(uuid, rng.choice(FLAVORS))
    else:
        getattr(conductor, METHODS.get(kind, kind))(uuid)


def take_over(conductor: Conductor) -> None:
    """Finish what others began."""
    for operation in conductor.resume():
        with suppress(RtAgentError):
            conductor.work(operation)


def log(operation: ServerOperation) -> None:
    """Print a step before it is made."""
    print(f"{STEP}{operation.uuid} {operation.kind}.{operation.step}", flush=True)


def main(config_file: str, seed: str, number: str) -> None:
    rng, ends = random.Random(f"conductor {seed} {number}"), Path(config_file).with_name(ENDS)
    while not ends.exists():
        with suppress(RtAgentError), opened(config_file, log) as conductor:
            while not ends.exists():
                with suppress(RtAgentError):
                    if rng.random() < 0.3:
                        take_over(conductor)
                    else:
                        act(conductor, rng)
                time.sleep(rng.uniform(0, 0.5))
        time.sleep(1)  # the database was not there


if __name__ == "__main__":
    main(*sys.argv[2:5])
