"""The Boss: batches in, losses out. Trains the user's model on the GPU, or on the CPU when there is none."""
