"""Process 1 of a host: a set of namespaces (network, mounts, host name, processes).

    unshare --net --uts --mount --propagation private --pid --fork --mount-proc \
        python3 hold.py NAME DIRECTORY PLACE...

Each PLACE, for example /etc, becomes the directory of that name in DIRECTORY, and /run is empty, as
on a machine that boots. When this process is killed, the kernel ends all others of the host: it has
lost its power.
"""

import os
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    name, directory, *places = sys.argv[1:]
    subprocess.run(["hostname", name], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for place in places:
        subprocess.run(["mount", "--bind", directory + place, place], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    # Daemons that do not make these.
    for needed in ("sshd", "openvswitch"):
        Path("/run", needed).mkdir()
    Path(directory, "ready").touch()
    while True:
        try:
            os.wait()  # for what QEMU and other daemons leave to process 1
        except ChildProcessError:
            time.sleep(0.2)


if __name__ == "__main__":
    main()
