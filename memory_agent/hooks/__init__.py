"""Hooks of coding agents: what they run before a prompt and after an answer, and how that gets into their settings."""
