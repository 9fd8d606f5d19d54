"""Memory of this process, as the operating system reports it."""

import sys

try:
    import resource
except ImportError:  # Windows
    resource = None


def peak_rss_bytes() -> int:
    """Return the largest resident size of this process so far.

    It is 0 where the system does not report it.
    """
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # The unit is the byte on macOS, and 1 KiB elsewhere.
    return peak if sys.platform == "darwin" else peak * 1024
