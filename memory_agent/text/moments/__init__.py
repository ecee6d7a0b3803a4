"""Moments of a conversation and the feelings in it, found by rules."""
