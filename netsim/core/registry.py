"""Named, extensible choices: topologies, routings, collectives, placements.

A registry maps a name to a plain function or small class. Packages add their own through entry points of the group
``netsim.<kind>`` (for example ``netsim.topologies``), found on first use of a name that is not built in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from netsim.core.errors import InputError, closest

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind of thing.

    Parameters
    ----------
    kind : str
        What is registered, in the singular, for messages: ``"topology"``.
    group : str
        Entry point group that other packages use to add to it.

    Examples
    --------
    >>> shapes = Registry("shape", "netsim.doctest_shapes")
    >>> @shapes.register("ring")
    ... def ring(n): return n
    >>> shapes["ring"](3), list(shapes)
    (3, ['ring'])

    Words of a name may be joined either way:

    >>> @shapes.register("figure-of-8")
    ... def eight(n): return 8 * n
    >>> shapes["figure_of_8"](1)
    8
    >>> shapes["rng"]
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: shape: unknown name, got 'rng'; did you mean 'ring'? valid: figure-of-8, ring
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = group
        self._items: dict[str, T] = {}
        self._plugins_loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: give the thing a name, which must be new."""

        def add(item: T) -> T:
            if name in self._items:
                raise InputError(self.kind, "the name is taken", got=repr(name), remedy="choose another name")
            self._items[name] = item
            return item

        return add

    def _load_plugins(self) -> None:
        if not self._plugins_loaded:
            self._plugins_loaded = True
            for point in sorted(entry_points(group=self.group), key=lambda p: p.name):
                if point.name not in self._items:
                    loaded = point.load()
                    # A module that registers by decorator has done so on being imported.
                    self._items.setdefault(point.name, loaded)

    def _spelled(self, name: str) -> str:
        """The name as it is registered: words joined by hyphens or by underscores, as people write them."""
        if name not in self._items:
            self._load_plugins()
        for spelling in (name, name.replace("_", "-"), name.replace("-", "_")):
            if spelling in self._items:
                return spelling
        return name

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[self._spelled(name)]
        except KeyError:
            raise InputError(self.kind, "unknown name", got=repr(name), remedy=closest(name, self)) from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._spelled(name) in self._items

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(sorted(self._items))

    def __len__(self) -> int:
        self._load_plugins()
        return len(self._items)
