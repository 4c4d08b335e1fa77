"""A whole OpenStack on this machine, for trying rtagent and for the tests that count."""
