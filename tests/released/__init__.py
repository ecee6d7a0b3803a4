"""Stores as released versions wrote them, and those versions' packages: what later ones must be able to open."""
