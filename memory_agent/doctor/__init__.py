"""Examination of a memory: the truth against everything derived of it, what differs, and its repair."""
