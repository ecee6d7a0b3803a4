"""Conversations: sessions, their compression, and who takes part."""
