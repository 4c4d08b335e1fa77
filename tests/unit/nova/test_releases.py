"""Which releases of Nova are supported; these tests run without Nova."""

import configparser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rtagent.nova import hook, releases

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("version", ["34", "34.0.0", "34.1.2", "33.0.2", "31.3.1"])
def test_supported_release_is_accepted(version: str):
    releases.check_release(version)


@pytest.mark.parametrize("version", ["30.0.0", "32.2.1", "35.0.0", "340.0.0", "3.4"])
def test_another_release_is_refused_with_those_that_are_supported(version: str):
    with pytest.raises(releases.UnsupportedNova) as raised:
        releases.check_release(version)
    supported = "rtagent-nova-compute supports Nova 34, 33, 31"
    assert str(raised.value) == f"Nova {version} is installed; {supported}"


def test_extra_installs_supported_releases_alone():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    required, *_ = setup["options.extras_require"]["nova"].split()
    versions = Requirement(required).specifier
    allowed = [number for number in range(20, 50) if f"{number}.1.0" in versions]
    assert allowed == sorted(map(int, releases.SUPPORTED))


def test_program_refuses_to_start_without_nova(capsys):
    assert hook.main() == 78
    assert capsys.readouterr().err == (
        "rtagent-nova-compute: Nova is not installed;"
        " rtagent-nova-compute supports Nova 34, 33, 31\n"
    )
