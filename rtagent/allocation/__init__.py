"""From a request to the resources of its claim: requirements, capacity, cells, devices, assigned
resources. Pure.
"""
