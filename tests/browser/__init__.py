"""The pages in a real browser. They run in an environment of their own: `make browser`."""
