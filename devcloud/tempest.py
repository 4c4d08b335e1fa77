"""Tempest, OpenStack's own tests of a running cloud, with Nova's tracker and with rtagent's."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from devcloud import configs, contents
from devcloud.cloud import Cloud
from devcloud.hosts import ENVIRONMENT, CloudError
from devcloud.places import CLOUD, HERE

#: All tests of the compute API, and the scenarios that need no ssh to a guest. Left out are live
#: migrations with a volume: libvirt refuses them here, as it takes no directory of this machine for
#: one that hosts share.
SELECTION = (
    r"^tempest\.api\.compute\.(?!.*live_block_migration_with_attached_volume)",
    r"^tempest\.scenario\.test_server_(multinode|advanced_ops)\.",
)
#: One test a line; a selection that runs before each release.
QUICK = HERE / "tempest-quick.txt"
_WORKSPACE = "/var/lib/tempest"
#: A line of the progress that `tempest run` prints: its worker, the test, and how it ended. A class
#: whose preparation failed or was skipped has one line in the place of its tests.
_LINE = re.compile(
    r"^\{\d+\} (setUpClass \((?P<group>\S+)\)|(?P<test>tempest\.\S+)).*"
    r" \.\.\. (?P<outcome>ok|FAILED|SKIPPED)(: .*)?$"
)
#: The last part of the name of such a line.
_WHOLE = "setUpClass"


class Results(dict[str, str]):
    """How each test ended (``ok``, ``FAILED`` or ``SKIPPED``), by its name."""

    @classmethod
    def of(cls, output: Iterable[str]) -> Results:
        """Read what `tempest run` printed."""
        results = cls()
        for line in output:
            if matched := _LINE.match(line.rstrip()):
                name = matched["test"] or f"{matched['group']}.{_WHOLE}"
                results[name] = matched["outcome"]
        return results

    def updated(self, newer: Results) -> Results:
        """Return the results with newer ones, of the same or of other tests."""
        groups = {name.rpartition(".")[0] for name in newer}
        left = {
            name: outcome
            for name, outcome in self.items()
            if not (name.endswith(f".{_WHOLE}") and name.rpartition(".")[0] in groups)
        }
        return Results(left | newer)

    def count(self) -> str:
        """Return the numbers of each outcome, for people."""
        counts = Counter(self.values())
        return ", ".join(f"{counts[name]} {name.lower()}" for name in ("ok", "SKIPPED", "FAILED"))


def results_file(kind: str) -> Path:
    """Return where the last result of each test is. :param kind: of `compute.PROGRAMS`."""
    return CLOUD / f"tempest-{kind}.json"


def run(cloud: Cloud, kind: str, tests: Iterable[str]) -> Results:
    """Run tests, and show the progress.

    :param kind: of `compute.PROGRAMS`. :param tests: regular expressions.
    """
    cloud.up(kind)
    _prepare(cloud)
    cloud.say(f"Tempest, with {kind}")
    command = ["tempest", "run", "--concurrency", "2", "--regex", "|".join(tests)]
    runs = subprocess.Popen(
        cloud.controller.enter("env", f"--chdir={_WORKSPACE}", *command),
        env={**ENVIRONMENT, "OS_TEST_TIMEOUT": "600"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert runs.stdout is not None
    output = []
    with runs, cloud.controller.log(f"tempest-{kind}").open("w") as log:
        for line in runs.stdout:
            log.write(line)
            output.append(line)
            if _LINE.match(line.rstrip()):
                cloud.say(line.rstrip())
    results = Results.of(output)
    if not results:
        raise CloudError(f"Tempest ran no test: see {cloud.controller.log(f'tempest-{kind}')}")
    cloud.say(results.count())
    file = results_file(kind)
    # Those of other tests are kept, so that a selection can be run again.
    kept = Results(json.loads(file.read_text())) if file.exists() else Results()
    file.write_text(json.dumps(kept.updated(results), indent=1, sort_keys=True) + "\n")
    return results


def _prepare(cloud: Cloud) -> None:
    controller = cloud.controller
    workspace = controller.directory / _WORKSPACE[1:]
    (controller.directory / "var/log/tempest").mkdir(exist_ok=True)
    if not (workspace / "etc").exists():
        controller.run("tempest", "init", _WORKSPACE)
    api = cloud.connect()
    image, other = (api.image.find_image(name).id for name in contents.IMAGES)
    text = configs.tempest(controller.password, image, other)
    (workspace / "etc/tempest.conf").write_text(text)


def last(kind: str) -> Results:
    """Return the last result of each test.

    :param kind: of `compute.PROGRAMS`. :raises CloudError: there was none.
    """
    try:
        return Results(json.loads(results_file(kind).read_text()))
    except FileNotFoundError:
        option = " --stock" if kind == "stock" else ""
        raise CloudError(f"no results: run tools/openstack tempest{option}") from None


def differences(stock: Mapping[str, str], rtagent: Mapping[str, str]) -> list[str]:
    """Return a line for each test that did not end in the same way."""
    return [
        f"{name}: stock {stock.get(name, 'not run')}, rtagent {rtagent.get(name, 'not run')}"
        for name in sorted({*stock, *rtagent})
        if stock.get(name) != rtagent.get(name)
    ]


def table(stock: Results, rtagent: Results) -> str:
    """Return the results by class of tests, as a CSV table."""

    def by_class(results: Results) -> dict[str, Counter[str]]:
        counts: dict[str, Counter[str]] = {}
        for name, outcome in results.items():
            counts.setdefault(name.rpartition(".")[0], Counter())[outcome] += 1
        return counts

    first, second = by_class(stock), by_class(rtagent)
    rows = ["class,stock ok,stock skipped,stock failed,rtagent ok,rtagent skipped,rtagent failed"]
    for name in sorted({*first, *second}):
        numbers = [
            str(counts.get(name, Counter())[outcome])
            for counts in (first, second)
            for outcome in ("ok", "SKIPPED", "FAILED")
        ]
        rows.append(",".join([name.removeprefix("tempest.api.compute."), *numbers]))
    return "\n".join(rows) + "\n"
