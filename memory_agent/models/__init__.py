"""Models behind the ports: embedders, language models, token counters, and the extractor that needs no model."""
