"""AutoAssist: the same accuracy for less GPU time.

A Boss trains your model, an Assistant learns which instances still matter, a Batcher drops the rest before they reach
the GPU. This package is the front door: configuration, command line, supervisor, live view, summary.
"""
