"""The built-in data sets. `batcher.config.DATASETS` names their callables, docs/plugins.md says what they read."""
