"""The pages at /inspect, over real HTTP."""
