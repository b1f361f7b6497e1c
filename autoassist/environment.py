"""What the processes of a run find in their environment."""

import os

from proto.messages import Role

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def environment(role: Role) -> dict[str, str]:
    """That of worker `role`: this process's, with what keeps the workers out of each other's way."""
    # A folder of the user's must not hide a package of ours.
    ours = {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    if role != "boss":
        return {**os.environ, **ours, **dict.fromkeys(THREADS, "1")}  # numpy must not take the Boss's cores
    # Threads that spin while they wait for one that has lost its core to the Batcher keep that from ending.
    return {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **ours}
