"""The five documents that the project was founded on, place by place, as tests that run."""
