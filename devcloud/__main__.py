"""python -m devcloud up | down | run | compute | power | status"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

from openstack.exceptions import SDKException

from devcloud import accounts, configs, speed, story, tempest, tempest_results
from devcloud.cloud import Cloud, timed
from devcloud.comparison import differences
from devcloud.compute import PROGRAMS, Compute
from devcloud.faults import Faults
from devcloud.hosts import ENVIRONMENT, CloudError
from devcloud.places import BIN, COMPUTES, LOGS


def main() -> int:
    arguments = _parser().parse_args()
    cloud = Cloud(timed(_show))
    try:
        if arguments.do in _ON_A_CLOUD and not cloud.controller.is_on:
            raise CloudError("the cloud is not up: tools/openstack up")
        return int(arguments.do(cloud, arguments) or 0)
    except (CloudError, SDKException, OSError, subprocess.CalledProcessError) as error:
        print(f"tools/openstack: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _show(line: str) -> None:
    print(line, flush=True)


def up(cloud: Cloud, arguments: argparse.Namespace) -> None:
    cloud.up(arguments.kind)
    cloud.say("ready")
    print(f"\nThe APIs, from this machine:\n  . {cloud.write_openrc()}; export PATH={BIN}:$PATH")
    print("  openstack server create --flavor pinned --image guest --network shared --wait first")
    print("  openstack hypervisor list")
    if all(host.program == "rtagent" for host in cloud.computes):
        print("  tools/openstack run compute1 rtagent claim list\nThe pages of rtagent:")
        for host in cloud.computes:
            print(f"  {host.name}: {host.page()}")


def down(cloud: Cloud, arguments: argparse.Namespace) -> None:
    if arguments.delete:
        cloud.delete()
    else:
        cloud.down()


def run(cloud: Cloud, arguments: argparse.Namespace) -> int:
    env = {**ENVIRONMENT, **configs.openrc(cloud.controller.password)}
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    return subprocess.run(cloud.host(arguments.host).enter(*words), env=env, check=False).returncode


def compute(cloud: Cloud, arguments: argparse.Namespace) -> None:
    cloud.say(f"{PROGRAMS[arguments.kind]} on both hosts")
    cloud.set_compute(arguments.kind)
    cloud.say("ready")


def power(cloud: Cloud, arguments: argparse.Namespace) -> None:
    host = cloud.host(arguments.host)
    assert isinstance(host, Compute)
    if arguments.state == "off":
        host.power_off()
    else:
        cloud.power_on(host)


def status(cloud: Cloud, _: argparse.Namespace) -> int:
    ended = False
    for host in cloud.hosts:
        print(f"{host.name} ({host.address}): {'on' if host.is_on else 'off'}")
        for name, runs in host.daemons().items():
            ended |= not runs
            print(f"  {name}: {'runs' if runs else f'ended, see {host.log(name)}'}")
    print(f"Logs: {LOGS}")
    return int(ended or not all(host.is_on for host in cloud.hosts))


def run_tempest(cloud: Cloud, arguments: argparse.Namespace) -> int:
    if arguments.compare or arguments.table:
        stock, ours = tempest.last("stock"), tempest.last("rtagent")
        if arguments.table:
            print(tempest_results.table(stock, ours), end="")
            return 0
        print(f"stock: {stock.count()}\nrtagent: {ours.count()}")
        lines = tempest_results.differences(stock, ours)
        print("\n".join(lines) if lines else "No test ended in another way.")
        return int(bool(lines))
    tests = arguments.regex or tempest.SELECTION
    if arguments.quick:
        tests = [f"^{re.escape(test)}\\[" for test in tempest.QUICK.read_text().split()]
    results = tempest.run(cloud, "stock" if arguments.stock else "rtagent", tests)
    return int("FAILED" in results.values())


def show_accounts(cloud: Cloud, _: argparse.Namespace) -> int:
    stores = accounts.read(cloud)
    for host in cloud.computes:
        numbers = (f"{name} {len(account.get(host.name, ()))}" for name, account in stores.items())
        print(f"{host.name}: servers in {', '.join(numbers)}")
    lines = differences(stores)
    print("\n".join([*accounts.leaks(cloud), *(lines or ["The accounts agree."])]))
    return int(bool(lines))


def make_faults(cloud: Cloud, arguments: argparse.Namespace) -> int:
    cloud.up("stock" if arguments.stock else "rtagent")
    cloud.say(f"{arguments.number} faults, seed {arguments.seed}")
    faults = Faults(cloud, arguments.seed)
    left = faults.run(arguments.number)
    for name, numbers in (("Faults", faults.faults), ("Servers", faults.steps)):
        counted = ", ".join(f"{step} {number}" for step, number in sorted(numbers.items()))
        cloud.say(f"{name}: {counted}")
    lines = [*sorted(faults.doubles), *left]
    agree = "No CPU had two servers, and the accounts agree."
    print("\n".join([*accounts.leaks(cloud), *(lines or [agree])]))
    return int(bool(lines))


def measure_speed(cloud: Cloud, arguments: argparse.Namespace) -> None:
    if arguments.guests:
        lines = speed.measure_guests(cloud, arguments.guests)
    else:
        lines = speed.table(speed.measure(cloud, arguments.turns))
    print("\n".join(lines))


#: What does not start the cloud itself, and needs it.
_ON_A_CLOUD = (run, compute, power, show_accounts)


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/openstack", description="A whole OpenStack on this machine."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(do: object, name: str, text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(do=do)
        return added

    add = verb(up, "up", "start what does not run")
    add.add_argument("kind", nargs="?", choices=PROGRAMS, help="default: rtagent, or as before")
    add = verb(down, "down", "end everything; the data remain for the next up")
    add.add_argument("--delete", action="store_true", help="delete the servers and all other data")
    add = verb(run, "run", "run a command on a host, as the administrator")
    add.add_argument("host", choices=("controller", *COMPUTES))
    add.add_argument("command", nargs=argparse.REMAINDER)
    add = verb(compute, "compute", "change Nova's compute services, with all servers running")
    add.add_argument("kind", choices=PROGRAMS)
    add = verb(power, "power", "cut the power of a compute host, or give it back")
    add.add_argument("host", choices=COMPUTES)
    add.add_argument("state", choices=("on", "off"))
    verb(lambda cloud, _: story.play(cloud), "story", "play what an operator does, with rtagent")
    add = verb(make_faults, "faults", "clients at work while services and hosts fail")
    add.add_argument("--number", type=_positive, default=30, help="of faults; default: 30")
    add.add_argument("--seed", type=int, default=1, help="of what is done, and when")
    add.add_argument("--stock", action="store_true", help="with Nova's own compute service")
    add = verb(measure_speed, "speed", "seconds that users wait, stock and rtagent in turns")
    add.add_argument("--turns", type=_positive, default=3, help="of each; default: 3")
    add.add_argument(
        "--guests",
        type=_positive,
        metavar="N",
        help="servers a minute with N guests of Nova's fake driver on each host, in an empty cloud",
    )
    verb(show_accounts, "accounts", "compare Nova, Placement, libvirt and rtagent")
    add = verb(run_tempest, "tempest", "run Tempest; exits with 1 if a test fails")
    add.add_argument("regex", nargs="*", help="of the tests; default: the compute API's")
    add.add_argument("--quick", action="store_true", help="the short list")
    add.add_argument("--stock", action="store_true", help="with Nova's own compute service")
    add.add_argument("--compare", action="store_true", help="compare the last runs of both")
    add.add_argument("--table", action="store_true", help="print the last runs of both, as CSV")
    verb(status, "status", "show which parts run; exits with 1 if one does not")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
