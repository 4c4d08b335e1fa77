"""The configuration: one module for each option group, read into one frozen `Settings`."""
