"""python -m lab build | boot | run | stop"""

from __future__ import annotations

import argparse
import sys
import time

from lab import control, image
from lab.channel import ChannelError
from lab.chroot import LOG, BuildFailed
from lab.guest import Guest
from lab.places import CONSOLES
from lab.profile import PROFILES


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return int(arguments.do(arguments))
    except (BuildFailed, ChannelError, TimeoutError, control.ControlFailed) as error:
        print(f"tools/lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def build(_: argparse.Namespace) -> int:
    began = time.monotonic()
    print(f"Building the image of the lab hosts (log: {LOG}) ...")
    print(f"{image.build().disk}: ready after {time.monotonic() - began:.0f} s")
    return 0


def boot(arguments: argparse.Namespace) -> int:
    control.check_none()
    build(arguments)
    began = time.monotonic()
    print(f"Booting (consoles: {CONSOLES}) ...")
    for name in control.start(arguments.hosts, arguments.profile):
        seconds = time.monotonic() - began
        print(f"{name}: ready after {seconds:.0f} s: tools/lab run {name} -- ...")
    return 0


def run(arguments: argparse.Namespace) -> int:
    guest = Guest(control.directory(arguments.host) / "guest.sock")
    done = guest.run(arguments.command, arguments.timeout)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.code if done.code >= 0 else 128 - done.code


def stop(_: argparse.Namespace) -> int:
    control.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/lab", description="Emulated hypervisors.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("build", help="build the image of this checkout").set_defaults(do=build)
    booting = commands.add_parser("boot", help="build the image, and boot hosts from it")
    booting.add_argument("--hosts", type=_number, default=1, metavar="N", help="lab1 to labN")
    booting.add_argument("--profile", choices=PROFILES, default=next(iter(PROFILES)))
    booting.set_defaults(do=boot)
    running = commands.add_parser("run", help="run a command on a host, as root")
    running.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS")
    running.add_argument("host", metavar="HOST")
    running.add_argument("command", nargs="+", metavar="COMMAND")
    running.set_defaults(do=run)
    commands.add_parser("stop", help="power off all hosts").set_defaults(do=stop)
    return parser


def _number(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hosts")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
