"""Measures of how easy the source is to follow: sizes, packages, language, and data flow."""
