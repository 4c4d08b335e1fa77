"""Our hold on the hypervisor."""

import pytest

from rtagent.errors import IdentityError
from rtagent.ports import HostIdentity, Silence
from rtagent.service.tenure import Tenure


def test_another_machine_is_not_served(tmp_path):
    tenure = Tenure(str(tmp_path), Silence())
    for _ in range(2):
        tenure.take(HostIdentity(hostname="here", host_uuid=""))
    with pytest.raises(IdentityError, match="was here and is elsewhere now"):
        tenure.take(HostIdentity(hostname="elsewhere", host_uuid=""))
    tenure.drop()
