"""The tracker of nova-compute, whose claims and sums are rtagent's.

Only this package imports Nova, which the environment of nova-compute has.
"""
