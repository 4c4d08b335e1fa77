"""Capacity of one host: how many further guests of each flavor it takes, and what none can use.

Pure: it decides on states as the agent does, and changes none.
"""
