"""python -m demo [--serve]"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys

from rich.console import Console

from demo.stage import PROGRAMS, Stage, Unexpected
from demo.story import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="leave it running until Ctrl-C")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 110)
    try:
        with Stage(console) as stage:
            play(stage)
            if arguments.serve:
                serve(stage)
    except Unexpected as error:
        console.print(f"The story went wrong: {error}", style="red")
        return 1
    stage.chapter("The end")
    return 0


def serve(stage: Stage) -> None:
    """Keep everything up, and say how to talk to it."""
    stage.chapter("Still running; in a second terminal:")
    config = shlex.quote(str(stage.daemon.config_file))
    line = f"export PATH={shlex.quote(str(PROGRAMS))}:$PATH RTAGENT_CONFIG_FILE={config}"
    stage.console.print(line, highlight=False, soft_wrap=True)
    stage.console.print("rtagent node show", highlight=False)
    stage.say("Ctrl-C (or SIGTERM) ends it.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        signal.pause()
    except KeyboardInterrupt:
        stage.console.print()


if __name__ == "__main__":
    raise SystemExit(main())
