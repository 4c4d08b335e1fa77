"""Options for the devices of lab hosts."""

from lab.runner import DEVICE_OPTIONS
from rtagent.pci.aliases import parse_aliases
from rtagent.pci.specs import parse_specs


def test_device_options_are_valid():
    assert len(parse_specs([DEVICE_OPTIONS["pci"]["device_spec"]])) == 2
    assert set(parse_aliases([DEVICE_OPTIONS["pci"]["alias"]])) == {"nvme", "edu"}
