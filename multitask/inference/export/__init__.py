"""Trained tasks as models that other libraries load: transformers, sentence-transformers, ONNX."""
