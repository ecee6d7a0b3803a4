"""Embedding models that run in this process: found on disk, run by ONNX Runtime, or by torch where that cannot be."""
