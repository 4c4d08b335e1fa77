"""Documents that others wrote: read, and given what a claim has."""
