"""Trackers: TensorBoard, Weights & Biases, MLflow and trackio."""
