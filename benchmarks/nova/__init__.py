"""Measurements of the tracker in nova-compute: Nova's own and rtagent's, side by side."""
