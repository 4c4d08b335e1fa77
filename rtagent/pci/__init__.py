"""PCI devices and assigned resources: configuration, availability, and the fit for a claim.

All of it is pure."""
