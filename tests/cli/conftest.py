import resource
from contextlib import contextmanager

import pytest


@pytest.fixture
def file_size_limit():
    """Let no file of this process grow beyond so many bytes: what a full disk looks like."""

    @contextmanager
    def limited(n_bytes):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited
