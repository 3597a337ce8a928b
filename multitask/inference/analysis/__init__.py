"""What trained encoders do inside, and pictures of it. Reads models, changes none."""
