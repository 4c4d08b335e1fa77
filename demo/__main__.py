"""python -m demo [--serve]"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys

from rich.console import Console

from demo.chapters import play
from demo.environment import PROGRAMS, Environment, UnexpectedExit


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="keep the agent running until Ctrl-C")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 110)
    try:
        with Environment(console) as demo:
            play(demo)
            if arguments.serve:
                serve(demo)
    except UnexpectedExit as error:
        console.print(f"The demonstration failed: {error}", style="red")
        return 1
    demo.chapter("The end")
    return 0


def serve(demo: Environment) -> None:
    """Keep everything running and print how to reach the agent."""
    demo.chapter("The agent keeps running. In a second terminal:")
    config = shlex.quote(str(demo.daemon.config_file))
    line = f"export PATH={shlex.quote(str(PROGRAMS))}:$PATH RTAGENT_CONFIG_FILE={config}"
    demo.console.print(line, highlight=False, soft_wrap=True)
    demo.console.print("rtagent node show", highlight=False)
    demo.say("Press Ctrl-C (or send SIGTERM) to stop.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        signal.pause()
    except KeyboardInterrupt:
        demo.console.print()


if __name__ == "__main__":
    raise SystemExit(main())
