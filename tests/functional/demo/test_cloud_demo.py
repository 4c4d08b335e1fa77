"""The demonstration of a cloud plays to its end and leaves no files behind.

It has a file of its own, so that another worker can play the other one.
"""

import subprocess

from tests.functional.demo.playing import play


def run_commands(printed: str) -> None:
    """Run the commands that were printed for a second terminal."""
    lines = printed.partition("In a second terminal:")[2].splitlines()
    export, *commands = [line for line in lines if line.startswith(("export ", "rtagent "))]
    assert len(commands) == 3
    script = "\n".join(["set -ex", export, *commands])
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, "web-1" in done.stdout) == (0, True), done.stderr


def test_demo_of_a_cloud_succeeds(directory):
    printed, chapters = play(directory, "--cloud", "--serve", served=run_commands)
    assert len(chapters) == 12
    assert "no valid host was found: of 3 hosts" in printed, printed
    assert "after 1 move there is room for 2 servers" in printed, printed
