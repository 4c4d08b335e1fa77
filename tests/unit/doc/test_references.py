"""The reference pages say what the code says."""

from pathlib import Path

from rtagent.conf import reference

DOC = Path(__file__).resolve().parents[3] / "doc"


def test_the_configuration_reference_is_that_of_the_options():
    stale = "run: rtagent config generate --reference > doc/configuration.rst"
    assert (DOC / "configuration.rst").read_text() == reference.render(), stale


def test_every_option_is_explained():
    page = reference.render()
    assert "``cpu_allocation_ratio``" in page and "[placement]" in page
    options = [line for line in page.splitlines() if line.startswith("``") and line.endswith("``")]
    assert len(options) > 30
