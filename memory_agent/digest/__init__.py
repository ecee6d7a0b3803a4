"""Digests: analyses of turns, and their fold over a conversation."""
