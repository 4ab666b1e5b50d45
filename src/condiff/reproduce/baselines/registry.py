"""Methods by name: each is loaded when it is first used, because some need packages of their own."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Generic, TypeVar

from condiff.errors import InvalidInputError, did_you_mean
from condiff.reproduce.baselines.method import Method
from condiff.reproduce.baselines.override import override
from condiff.reproduce.runs import NO_CONDITION, Condition

Kind = TypeVar("Kind", bound=Method)


class Registry(Generic[Kind]):
    """The methods of one task.

    Parameters
    ----------
    package
        The package they are in.
    methods
        The name of each: its module in the package, and its class in the module.
    """

    def __init__(self, package: str, methods: dict[str, tuple[str, str]]) -> None:
        self.package, self.methods = package, methods

    def named(self, name: str) -> tuple[str, type[Kind]]:
        """A method's proper name and its class; case does not matter."""
        known = {each.lower(): each for each in self.methods}
        if name.lower() not in known:
            raise InvalidInputError(
                f"unknown method {name!r}{did_you_mean(name, self.methods)}; the methods are {', '.join(self.methods)}"
            )
        proper = known[name.lower()]
        module, attribute = self.methods[proper]
        found: type[Kind] = getattr(import_module(f"{self.package}.{module}"), attribute)
        return proper, found

    def get(self, name: str) -> type[Kind]:
        """The class of a method by its name."""
        return self.named(name)[1]

    def chosen(
        self, names: str, dataset: str, changes: Iterable[str] = (), condition: Condition = NO_CONDITION
    ) -> dict[str, Kind]:
        """The methods that a user named, with the settings recommended for a data set.

        Parameters
        ----------
        names
            Separated by commas, or ``all``.
        dataset, condition
            What the settings are for.
        changes
            ``NAME=VALUE`` for every method, or ``METHOD.NAME=VALUE`` for one.
        """
        wanted = list(self.methods) if names.strip().lower() == "all" else [name.strip() for name in names.split(",")]
        found = {}
        for each in wanted:
            name, kind = self.named(each)
            found[name] = kind.recommended(dataset, condition)
        asked: dict[str, dict[str, str]] = {name: {} for name in found}
        for change in changes:
            path, equals, value = change.partition("=")
            if not equals:
                raise InvalidInputError(f"a change is [METHOD.]NAME=VALUE, not {change!r}")
            owner, _, rest = path.partition(".")
            named = [name for name in found if name.lower() == owner.lower()]
            for name in named or found:
                asked[name][rest if named else path] = value
        return {name: override(method, asked[name]) for name, method in found.items()}
