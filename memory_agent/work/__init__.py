"""Pending work: admission, the worker with its leases and outages, forgetting, rebuilding."""
