"""The built-in data sets. Each module has one plugin, named in `batcher.config.DATASETS`."""
