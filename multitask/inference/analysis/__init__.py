"""Analysis of trained encoders: attention weights, layers and weights of hidden states."""
