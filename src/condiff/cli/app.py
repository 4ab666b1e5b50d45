"""The ``condiff`` command: registers every command and turns our errors into one line and exit code 2."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any

import typer

from condiff import __version__
from condiff.cli import (
    ablate,
    backbone,
    bench,
    certify,
    data,
    demo,
    explore,
    fewshot,
    fit,
    forecast,
    label,
    predict,
    report,
    reproduce,
    theory,
)
from condiff.cli.output import console, error_line, warning_line
from condiff.errors import CondiffError

app = typer.Typer(
    name="condiff",
    help="Learn from few labels: a small network whose output is diffused over a graph of the samples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("demo")(demo.command)
app.command("fit")(fit.command)
app.command("predict")(predict.command)
app.command("forecast")(forecast.forecast)
app.command("impute")(forecast.impute)
app.command("label")(label.command)
app.command("certify")(certify.command)
app.command("ablate")(ablate.command)
app.command("report")(report.command)
app.command("explore")(explore.command)
app.command("fewshot")(fewshot.command)
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(bench.app, name="bench")
app.add_typer(backbone.app, name="backbone")
app.add_typer(data.app, name="data")
app.add_typer(theory.app, name="theory")


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
    error_line(f"{error.format_message().rstrip('.')}; see {command} --help")
