"""Exports and backups: everything of a memory as JSON Lines, and back."""
