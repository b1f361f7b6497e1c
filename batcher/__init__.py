"""The Batcher: weights in, batches out. Walks the data set, keeps or drops each candidate, assembles batches."""
