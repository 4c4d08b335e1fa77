"""Which releases of Nova are supported."""

import pytest

from rtagent.nova import releases


@pytest.mark.parametrize("version", ["34", "34.0.0", "34.1.2"])
def test_supported_release_is_accepted(version: str):
    releases.check(version)


@pytest.mark.parametrize("version", ["33.0.0", "35.0.0", "340.0.0", "3.4"])
def test_another_release_is_refused_with_those_that_are_supported(version: str):
    with pytest.raises(releases.UnsupportedNova) as raised:
        releases.check(version)
    assert str(raised.value) == (
        f"Nova {version} is installed; rtagent-nova-compute supports Nova 34"
    )


def test_absent_nova_is_refused():
    with pytest.raises(releases.UnsupportedNova, match="Nova is not installed"):
        releases.check(None)
