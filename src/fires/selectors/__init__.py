"""Selectors: thin stateful shells that turn batches into weights and a support."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fires.core.moved import imported

if TYPE_CHECKING:
    from fires.selectors.base import OnlineSelector


def __getattr__(name: str) -> type[OnlineSelector]:
    # All methods could once be imported from here. They are rivals now, which are above us.
    kind: type[OnlineSelector] = imported("fires.rivals", name)
    return kind
