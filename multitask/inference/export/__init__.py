"""Export trained tasks as models for transformers, sentence-transformers and ONNX."""
