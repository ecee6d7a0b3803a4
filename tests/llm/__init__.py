"""Real language models: the labelled talks, how they are judged, and the tests that ask a model on this machine (`make test-llm`)."""
