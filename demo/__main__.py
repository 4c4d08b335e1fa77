"""python -m demo [--cloud] [--serve]"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys

from rich.console import Console

from demo import chapters, cloud_chapters
from demo.cloud import Cloud
from demo.environment import Environment
from demo.screen import PROGRAMS, Screen, UnexpectedExit


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    parser.add_argument(
        "--cloud", action="store_true", help="play three hosts, a scheduler and a conductor"
    )
    parser.add_argument("--serve", action="store_true", help="keep it running until Ctrl-C")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 110)
    try:
        if arguments.cloud:
            with Cloud(console) as cloud:
                cloud_chapters.play(cloud)
                if arguments.serve:
                    agent = f"--config-file {shlex.quote(cloud.config_of('host-1'))} claim list"
                    serve(cloud, "The cloud keeps running", "host list", "server list", agent)
        else:
            with Environment(console) as demo:
                chapters.play(demo)
                if arguments.serve:
                    serve(demo, "The agent keeps running", "node show")
    except UnexpectedExit as error:
        console.print(f"The demonstration failed: {error}", style="red")
        return 1
    Screen(console).chapter("The end")
    return 0


def serve(demo: Screen, what: str, *commands: str) -> None:
    """Keep everything running and print how to reach it.

    :param commands: of `rtagent`, for example.
    """
    demo.chapter(f"{what}. In a second terminal:")
    config = shlex.quote(demo.environment()["RTAGENT_CONFIG_FILE"])
    line = f"export PATH={shlex.quote(str(PROGRAMS))}:$PATH RTAGENT_CONFIG_FILE={config}"
    demo.console.print(line, highlight=False, soft_wrap=True)
    for command in commands:
        demo.console.print(f"rtagent {command}", highlight=False, soft_wrap=True)
    demo.say("Pages, for a browser on this machine:")
    for name, url in demo.pages.items():
        demo.console.print(f"{name}: {url}", highlight=False, soft_wrap=True)
    demo.say("Press Ctrl-C (or send SIGTERM) to stop.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        signal.pause()
    except KeyboardInterrupt:
        demo.console.print()


if __name__ == "__main__":
    raise SystemExit(main())
