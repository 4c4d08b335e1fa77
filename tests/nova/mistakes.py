"""Options that Nova accepts and claims cannot have: the service does not start.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

import json

from nova import exception

from tests.nova.pci_case import PciCase


class MistakeTest(PciCase):
    def test_an_unknown_key_of_a_device_specification_ends_the_start(self) -> None:
        """Otherwise Nova would log it, and start without the providers of the node."""
        specs = [json.dumps({**json.loads(spec), "note": "x"}) for spec in self.PCI_DEVICE_SPEC]
        self.flags(device_spec=specs, group="pci")
        ended = self.assertRaises(exception.InvalidConfiguration, self.start_compute)
        self.assertIn("[pci] device_spec 0: note = x: unknown key", str(ended))
