"""Requests to Placement do not wait for the time of day, which may be set back by days."""

import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.world.clock import Clock
from tests.functional.placement.conftest import MirroredNode

DAY = 86400

#: Makes a request for each line that it reads, and ends if one takes minutes.
_SCRIPT = """
import faulthandler, sys
from keystoneauth1 import adapter, session, token_endpoint
from rtagent.placement.client import HttpPlacement

auth = token_endpoint.Token(*sys.argv[1:])
keystone = session.Session(auth=auth, timeout=30)
client = HttpPlacement(adapter.Adapter(keystone, service_type="placement"))
for line in sys.stdin:
    faulthandler.dump_traceback_later(120, exit=True)
    client.microversions()
    faulthandler.cancel_dump_traceback_later()
    print("answered", flush=True)
"""


def test_a_request_is_made_at_once_after_the_clock_was_set_back(node: MirroredNode, tmp_path: Path):
    clock = Clock(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, node.server.url, node.server.token],
        env={**os.environ, **clock.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        for step in (0, -DAY, DAY, 0):
            clock.step(step)
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "answered\n"
        process.stdin.close()
