"""What a `Loader` must give back, whatever happens to it."""

import os

from autoassist.ranks import Alone, Ranks
from autoassist.service import Service


class Held:
    """The data set's descriptor, the service, and what the ranks hold. They lie apart from the loader, so that
    they can be given back when that is collected."""

    def __init__(self, descriptor: int | None, ranks: Alone | Ranks) -> None:
        self.descriptor, self._ranks, self._owner = descriptor, ranks, os.getpid()
        self.service: Service | None = None

    def require_own(self) -> None:
        """Raises in a child that was forked: both would read from, and write to, the same sockets."""
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"this loader serves process {self._owner}, which made it, not process {os.getpid()}, which was forked "
                "from it; make a loader here"
            )

    def end(self) -> None:
        """Ends the service, if there is one."""
        if self.service is not None:
            self.service.close()
            self.service = None

    def close(self) -> None:
        if os.getpid() == self._owner:  # a child that was forked has a copy of this, and must leave it alone
            if self.service is not None:
                self.service.close()
            if self.descriptor is not None:
                os.close(self.descriptor)
            self._ranks.close()
