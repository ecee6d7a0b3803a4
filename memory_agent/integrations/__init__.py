"""Adapters to frameworks of agents, each in a module of its own that alone imports its framework."""
