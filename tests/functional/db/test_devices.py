"""Every database shows the devices."""

from tests.unit.db.device_cases import DeviceRowCases


class TestDeviceRows(DeviceRowCases):
    """On each."""
