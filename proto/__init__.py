"""What the processes say to each other: messages, channels, sockets, and the life of a worker.

`proto` imports none of the other packages; `boss`, `assistant` and `batcher` import only `proto` and themselves.
"""
