"""The ``condiff`` command: registers every command and turns our errors into one line and exit code 2."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from condiff import __version__
from condiff.cli.output import console, error_line, warning_line
from condiff.errors import CondiffError

#: Where each command is defined: the module, and the function or the group of commands in it.
_HOMES = {
    "demo": ("demo", "command"),
    "fit": ("fit", "command"),
    "predict": ("predict", "command"),
    "forecast": ("forecast", "forecast"),
    "impute": ("forecast", "impute"),
    "label": ("label", "command"),
    "certify": ("certify", "command"),
    "ablate": ("ablate", "command"),
    "report": ("report", "command"),
    "explore": ("explore", "command"),
    "fewshot": ("fewshot", "command"),
    "reproduce": ("reproduce", "app"),
    "bench": ("bench", "app"),
    "backbone": ("backbone", "app"),
    "data": ("data", "app"),
    "theory": ("theory", "app"),
}


class _Commands(Mapping[str, Any]):
    """The commands by name; a command's module is imported when the command is asked for."""

    def __getitem__(self, name: str) -> Any:
        module, attribute = _HOMES[name]
        found = getattr(import_module(f"condiff.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = name
            return group
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name)(found)
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


class _Group(TyperGroup):
    """All commands, of which only the one that is called is imported."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands()  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


app = typer.Typer(
    name="condiff",
    cls=_Group,
    help="Learn from few labels: a base model, and a diffusion of its output over a graph of the samples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"condiff {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options that come before the command's name."""


_INTERRUPTED = 130
#: Commands that write their whole result at the end, or nothing.
_ALL_OR_NOTHING = ("fit", "predict", "forecast", "impute", "fewshot")
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer exports only what is made of it


def main() -> None:
    """Entry point of the ``condiff`` script."""
    if not sys.stdout.isatty():
        # In a file or a pipe there is no window to fit into: tables keep their columns whole.
        columns = os.environ.get("COLUMNS", "")
        console.width = int(columns) if columns.isdigit() else 120
    debug = "--debug" in sys.argv[1:]
    # --debug works anywhere on the line, because people add it at the end of the command that failed.
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    with warnings.catch_warnings():
        if not debug:
            warnings.showwarning = warning_line
        try:
            code = app(args=arguments, prog_name="condiff", standalone_mode=False)
        except (CondiffError, OSError) as error:  # OSError: a folder that cannot be written, a full disk
            if debug:
                raise
            error_line(str(error))
            sys.exit(2)
        except (MemoryError, RuntimeError) as error:
            if debug or not _ran_out(error):
                raise
            error_line("there is not enough memory for this: give it less data at a time, or a larger machine")
            sys.exit(2)
        except (KeyboardInterrupt, typer.Abort):
            code = _INTERRUPTED
        except _UsageError as error:
            _say_usage(error)
            sys.exit(2)
    if code == _INTERRUPTED:  # typer turns Ctrl-C into this code
        nothing = arguments and arguments[0] in _ALL_OR_NOTHING
        error_line("stopped; nothing was written" if nothing else "stopped")
    sys.exit(code if isinstance(code, int) else 0)


def _ran_out(error: Exception) -> bool:
    """Whether an error is that of memory; torch has none of its own for it."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


def _say_usage(error: Any) -> None:
    """A usage error as one line; the help where no command was given."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = error.ctx.command_path if error.ctx is not None else "condiff"
    # How typer's own checks of a choice begin says nothing to a user.
    message = error.format_message().rstrip(".").replace(": Value error, ", ": ")
    error_line(f"{message}; see {command} --help")
