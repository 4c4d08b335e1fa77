"""Tempest, OpenStack's own tests of a running cloud, with Nova's tracker and with rtagent's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

from devcloud import configs, contents
from devcloud.cloud import Cloud
from devcloud.hosts import ENVIRONMENT, CloudError
from devcloud.places import CLOUD, HERE
from devcloud.tempest_results import Results

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
            if Results.of([line]):
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
