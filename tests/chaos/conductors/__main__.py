"""A conductor that makes random operations, until it is killed.

``python -m tests.chaos.conductors --config-file FILE SEED NUMBER``: all conductors of a seed have
the same servers. Each one also takes over what others seem to have given up.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
from rtagent.conductor.conductor import Conductor
from rtagent.conductor.operations import STATES
from rtagent.errors import RtAgentError
from rtagent.model.request_spec import RequestSpec
from rtagent.model.server import ServerOperation
from tests.chaos.conductors.records import FLAVORS, STEP, opened, server_uuids

#: The method of an operation, by its kind.
METHODS = {"live-migration": "live_migrate"}
#: Kinds that need more than a state: a host that is down.
NOT_HERE = {"evacuation"}
#: The share of steps before which a conductor is suspended, and for how many seconds.
SUSPENDED, DURATIONS = 0.05, (4.0, 12.0)


def act(conductor: Conductor, rng: random.Random, uuid: str) -> None:
    """Make an operation that the state of the server allows."""
    server = {each.uuid: each for each in conductor.servers()}.get(uuid)
    if server is None:
        conductor.build(RequestSpec(flavor=rng.choice(FLAVORS)), server_uuid=uuid, name="web")
        return
    kinds = sorted(kind for kind, states in STATES.items() if server.vm_state in states)
    kind = rng.choice([*(set(kinds) - NOT_HERE), "delete"])
    if kind == "delete" and rng.random() < 0.2:
        conductor.force_delete(uuid, "chaos")
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


def log(rng: random.Random, operation: ServerOperation) -> None:
    """Print a step before it is made. At some, be suspended between its record and its call."""
    print(f"{STEP}{operation.uuid} {operation.kind}.{operation.step}", flush=True)
    if rng.random() < SUSPENDED:
        wake = f"sleep {rng.uniform(*DURATIONS):.1f}; kill -CONT {os.getpid()}"
        subprocess.Popen(["sh", "-c", wake], start_new_session=True)
        os.kill(os.getpid(), signal.SIGSTOP)


def main(config_file: str, seed: str, number: str) -> None:
    rng, uuids = random.Random(f"conductor {seed} {number}"), server_uuids(seed)
    while True:
        with suppress(RtAgentError), opened(config_file, partial(log, rng)) as conductor:
            while True:
                with suppress(RtAgentError):
                    if rng.random() < 0.3:
                        take_over(conductor)
                    else:
                        act(conductor, rng, rng.choice(uuids))
                time.sleep(rng.uniform(0, 0.5))
        time.sleep(1)  # the database was not there


if __name__ == "__main__":
    main(*sys.argv[2:5])
