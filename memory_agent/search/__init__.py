"""Hybrid search over one user's turns, and the index stage that feeds it."""
