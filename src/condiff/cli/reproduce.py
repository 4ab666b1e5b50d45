"""``condiff reproduce``: the benchmarks of the paper, one command for each protocol, made from its options."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from condiff.cli.output import batches_shown, console, note, print_json, typed
from condiff.errors import FailedRunsError, InvalidInputError

if TYPE_CHECKING:
    from condiff.reproduce.protocol import Job, Options, Protocol
    from condiff.reproduce.runs import Run
    from condiff.reproduce.verification import Check

_HELP = """Rerun a benchmark of the paper beside its published values, or a protocol on your own data.

Every run is kept in FOLDER/runs.sqlite as soon as it is there: stop at any moment, and the same command goes on \
where it stopped. Runs that are already there are kept, whichever command made them; --renew makes them again.

[dim]Examples[/dim]

[bold]condiff reproduce node cora citeseer --method COIN,GCN,APPNP[/bold]

[bold]condiff reproduce cora[/bold]  (a graph alone means node)

[bold]condiff reproduce covid --method all --missing 0.5[/bold]

[bold]condiff reproduce --verify 20 --out FOLDER[/bold]  (make 20 of its runs again and compare)

[bold]condiff reproduce fewshot --help[/bold]  (its options, with examples)"""
_DEFAULT = "node"
# What --verify alone means: any runs of a folder.
_FOLDER = "folder"
_OF_A_FOLDER = ("verify", "out", "jobs", "json")


Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Processes, one torch thread each; $CONDIFF_JOBS or one per core by default."),
]


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a sweep is run and shown, whatever its protocol."""

    jobs: Jobs = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786."),
    ] = None
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Folder for the store of runs, tables and pictures; existing runs are kept and used."
        ),
    ] = Path("condiff-results")
    verify: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Make N of the runs in FOLDER again, drawn at random among those of the other options, and compare "
            "every digit; nothing is written, and differences beyond rounding are exit code 1. Without a protocol, "
            "condiff reproduce --verify N --out FOLDER, they are drawn among all runs there.",
        ),
    ] = None
    renew: Annotated[
        Literal["untraced", "older"] | None,
        typer.Option(
            metavar="untraced|older",
            help="Make stored runs again and replace them: untraced, those that do not say which command, commit and "
            "processor made them; older, all that another commit or version made. What was renewed is not made again "
            "when the command resumes.",
        ),
    ] = None
    pictures: Annotated[bool, typer.Option(help="Draw the figures.")] = True
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False


class _Command(TyperCommand):
    """A protocol's command, which says where an option belongs that is not its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)  # what typer raises for it, it does not export
            if option is None:  # also the end of --help, which is no error
                raise
            if owners := [name for name in _names() if option in _flags(name)]:
                message = f"{option} is an option of {', '.join(owners)}, not of {self.name}"
                raise InvalidInputError(f"{message}; see {ctx.command_path} --help") from error
            raise


class Listed(TyperCommand):
    """A protocol's command in a list of commands: its options are read, and all that it imports, when it is called."""

    @classmethod
    def of(cls, name: str) -> Listed:
        """The command of a protocol."""
        from condiff.reproduce.protocols import ABOUT

        return cls(name, help=ABOUT[name], short_help=ABOUT[name])

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        assert self.name is not None
        return protocol_command(self.name).make_context(info_name, args, parent=parent, **extra)


class _Group(TyperGroup):
    """Commands made from the protocols on first use; a graph's name alone means ``node``."""

    def list_commands(self, ctx: Any) -> list[str]:
        return _names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name == _FOLDER:
            return _folder_command()
        return Listed.of(cmd_name) if cmd_name in _names() else None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if _is_of_a_folder(args):
            return super().parse_args(ctx, [_FOLDER, *args])
        if args and not {"-h", "--help"} & set(args[:1]) and args[0] not in _names():
            # The protocol may come after its options, but what follows an option may be its value.
            named = [arg for before, arg in pairwise(args) if arg in _names() and not before.startswith("-")]
            args = [named[0], *(arg for arg in args if arg != named[0])] if named else [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Group,
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _reproduce() -> None:
    pass


def _names() -> list[str]:
    from condiff.reproduce.protocols import BENCHES, PROTOCOLS

    return [name for name in PROTOCOLS if name not in BENCHES]


def _flags(name: str) -> set[str]:
    return {flag for parameter in protocol_command(name).params for flag in parameter.opts}


def protocol_command(name: str) -> TyperCommand:
    """The command of a protocol: its options and those of every sweep, as typer would read them off a function."""
    from condiff.reproduce.protocols import protocol

    found = protocol(name)
    own, shared = _parameters(found.options), get_type_hints(Running, include_extras=True)
    shown = {each.name: each.default for each in dataclasses.fields(Running)}
    parameters = own + [
        inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=shown[each], annotation=kind)
        for each, kind in shared.items()
    ]

    def call(**values: Any) -> None:
        running = Running(**{each: values.pop(each) for each in shared})
        given: dict[str, Any] = {each: tuple(v) if isinstance(v, list) else v for each, v in values.items()}
        run(found, found.options(**given), running)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    made = typer.Typer(add_completion=False, rich_markup_mode="rich")
    examples = "\n\n".join(f"[bold]{example}[/bold]" for example in found.examples)
    about = f"{found.about}\n\n[dim]Examples[/dim]\n\n{examples}"
    settings = {"help_option_names": ["-h", "--help"]}
    made.command(name, cls=_Command, help=about, short_help=found.about, context_settings=settings)(call)
    command = typer.main.get_command(made)
    assert isinstance(command, TyperCommand)
    return command


def _parameters(options: type[Options]) -> list[inspect.Parameter]:
    from condiff.reproduce.protocol import flag_of

    hints = get_type_hints(options)
    found = []
    for each in sorted(dataclasses.fields(options), key=lambda each: not each.metadata["argument"]):
        about, kind = each.metadata, hints[each.name]
        shown: dict[str, Any] = {"help": about["help"], "metavar": about["metavar"]}
        if about["low"] is not None:
            shown |= {"min": about["low"], "max": about["high"]}
        default = inspect.Parameter.empty if each.default is dataclasses.MISSING else each.default
        if kind == tuple[str, ...]:
            kind, default = list[str], [] if default == () else default
            shown["show_default"] = False
        made = (
            typer.Argument(**shown) if about["argument"] else typer.Option(flag_of(each.name, about["flag"]), **shown)
        )
        keyword = inspect.Parameter.KEYWORD_ONLY
        found.append(inspect.Parameter(each.name, keyword, default=default, annotation=Annotated[kind, made]))
    return found


def run(protocol: Protocol, options: Options, running: Running) -> None:
    """Make the runs, and write and show their summary."""
    from condiff.cli.sweeping import follow
    from condiff.pages.canvas import save
    from condiff.reproduce.cluster import AHEAD, cluster_pool
    from condiff.reproduce.pool import process_pool
    from condiff.reproduce.protocol import splits_record
    from condiff.reproduce.provenance import provenance
    from condiff.reproduce.results import STORE, headline, write_results
    from condiff.reproduce.runner import sweep
    from condiff.reproduce.store import Store
    from condiff.reproduce.tables import terminal_table

    if running.jobs is not None and running.cluster is not None:
        raise InvalidInputError("--jobs is for processes of this machine: leave it out with --cluster")
    if running.cluster is not None and options.here_only:
        raise InvalidInputError(f"{options.here_only}: leave out --cluster")
    notes = protocol.notes(options)
    protocol.fetch(options, batches_shown)
    jobs = protocol.jobs(options)
    made, out = provenance(typed()), running.out
    if running.renew is not None and "commit" not in made:
        raise InvalidInputError(
            "--renew goes by the commit that made a run: it needs a clone, not an installed package"
        )
    if running.verify is not None:
        if running.renew is not None:
            raise InvalidInputError("--verify writes nothing: leave out --renew")
        _verify(jobs, running, running.verify)
        return
    pool_of = process_pool(running.jobs) if running.cluster is None else cluster_pool(running.cluster)
    with pool_of as pool, Store(out / STORE) as store:
        keys = [job.key for job in jobs]
        store.check_same_data(keys)
        # Only now: what is wrong with the options is one line, without others before it.
        for line in notes:
            note(line)
        renewed = _renewed(running.renew, store.made(keys), made)
        held = store.find(key for key in keys if key.digest not in renewed)
        protocol.prepare([job for job in jobs if job.key.digest not in held], pool, note)
        ahead = 64 if running.cluster is None else AHEAD
        made_runs = sweep(jobs, store, pool, made, renewed=renewed, ahead=ahead, batches=protocol.batches)
        failed: FailedRunsError | None = None
        try:
            follow(made_runs, len(jobs), protocol.metrics)
        except FailedRunsError as error:
            failed = error  # the tables are of the others
        done = store.find(keys)
        jobs = [job for job in jobs if job.key.digest in done]
        runs, everything, makers = store.held(keys), store.runs(protocol.name), store.makers(protocol.name)
    if failed is not None and not runs:
        raise failed
    rows, all_rows = headline(runs, protocol.metrics), headline(everything, protocol.metrics)
    texts = protocol.texts(everything)
    write_results(out, all_rows, made, makers=makers, splits=splits_record(jobs), texts=texts)
    if running.pictures:
        for name, figure in protocol.pictures(jobs, everything, all_rows).items():
            save(figure, out / name)
    if running.json:
        print_json([row.to_dict() for row in rows])
    else:
        console.print(terminal_table([row for row in rows if row.metric in (protocol.on_screen or protocol.metrics)]))
    for line in protocol.remarks(jobs, runs):
        note(line)
    if not running.json:
        files = ", ".join(["summary.json", "summary.csv", "table.md", "table.tex", *texts, STORE])
        console.print(f"\nwritten to {out}: {files}", markup=False)
    if failed is not None:
        raise failed


def _renewed(which: str | None, stored: dict[str, dict[str, Any]], now: dict[str, str]) -> set[str]:
    """The digests of the stored runs that --renew makes again."""
    from condiff.reproduce.provenance import is_made_by, is_traceable

    if which is None:
        return set()
    return {
        digest
        for digest, made in stored.items()
        if not (is_traceable(made) if which == "untraced" else is_made_by(made, now))
    }


def _is_of_a_folder(args: list[str]) -> bool:
    """Whether --verify comes without a protocol, and without anything but how to run it."""
    left = list(args)
    for flag in ("--verify", "--out", "--jobs"):
        places = [place for place, arg in enumerate(left) if arg == flag or arg.startswith(f"{flag}=")]
        if flag == "--verify" and not places:
            return False
        for place in reversed(places):
            del left[place : place + (1 if "=" in left[place] else 2)]
    return set(left) <= {"--json"}


def _folder_command() -> TyperCommand:
    """``condiff reproduce --verify N --out FOLDER``, of whatever protocols the runs there are."""
    made = typer.Typer(add_completion=False, rich_markup_mode="rich")
    hints = get_type_hints(Running, include_extras=True)

    def call(**values: Any) -> None:
        running = Running(**values)
        assert running.verify is not None
        _verify(None, running, running.verify)

    named = {each.name: each.default for each in dataclasses.fields(Running) if each.name in _OF_A_FOLDER}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(n, keyword, default=d, annotation=hints[n]) for n, d in named.items()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {name: hints[name] for name in named}
    made.command(_FOLDER)(call)
    command = typer.main.get_command(made)
    assert isinstance(command, TyperCommand)
    return command


def _verify(jobs: list[Job] | None, running: Running, number: int) -> None:
    """Make stored runs again, of some jobs or of everything in the folder, and say how they compare."""
    from tempfile import TemporaryDirectory

    from condiff.cli.sweeping import follow
    from condiff.reproduce.pool import process_pool
    from condiff.reproduce.provenance import provenance
    from condiff.reproduce.results import STORE
    from condiff.reproduce.runner import sweep
    from condiff.reproduce.store import Store
    from condiff.reproduce.verification import compare, draw, draw_stored

    if running.cluster is not None:
        raise InvalidInputError("--verify runs on this machine: leave out --cluster")
    if not (running.out / STORE).is_file():
        raise InvalidInputError(f"{running.out} has no {STORE}: name the folder of the runs with --out")
    with Store.snapshot(running.out / STORE) as store, TemporaryDirectory() as folder:
        drawn, untold = draw_stored(store, number) if jobs is None else (draw(jobs, store, number), 0)
        if untold:
            note(f"{untold} runs do not tell the options they were made with: give these to verify them")
        owners = {job.protocol: [each for each in drawn if each.protocol is job.protocol] for job in drawn}
        with process_pool(running.jobs) as pool, Store(Path(folder) / STORE) as again:
            for owner, own in owners.items():
                owner.prepare(own, pool, note)
                follow(sweep(own, again, pool, provenance(typed())), len(own), owner.metrics)
            checks = compare(drawn, store, again)
    if running.json:
        print_json([check.to_dict() for check in checks])
    else:
        _show(checks)
    if any(check.wrong for check in checks):
        raise typer.Exit(1)


def _show(checks: list[Check]) -> None:
    """What differs, line by line, then how many do, by the processor that made the stored runs."""
    from condiff.reproduce.provenance import processor

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    for check in checks:
        if not check.rounded and not check.hidden:
            say(f"{_place(check.stored)}: {_changes(check)}")
    say(_counts(f"{len(checks)} runs made again", checks))
    made_by = dict.fromkeys(check.processor for check in checks)
    if set(made_by) == {processor()}:
        return
    for name in made_by:
        known = "this processor" if name == processor() else name or "a processor that was not recorded"
        say(_counts(f"  made on {known}", [check for check in checks if check.processor == name]))
    if any(check.elsewhere and not check.rounded for check in checks):
        say("Another processor rounds differently, and a long training may carry that into what is shown.")


def _counts(what: str, checks: list[Check]) -> str:
    equal = sum(check.equal for check in checks)
    rounded = [check for check in checks if check.rounded and not check.equal]
    hidden = [check for check in checks if check.hidden and not check.rounded]
    different = [check for check in checks if not check.rounded and not check.hidden]
    same = "1 is" if equal == 1 else f"{equal} are"
    return (
        f"{what}: {same} the same to the last digit"
        f"{_most('the same up to rounding', rounded)}"
        f"{_most('different in no digit that tables show', hidden)}{_most('different', different)}"
    )


def _most(what: str, checks: list[Check]) -> str:
    return f", {len(checks)} {what} ({max(check.difference for check in checks):.2g} at most)" if checks else ""


def _place(run: Run) -> str:
    conditions = "".join(f", {name} {value}" for name, value in run.condition.items())
    return f"{run.dataset}{conditions}, {run.method}, split {run.split}, init {run.init}"


def _changes(check: Check) -> str:
    """What was stored and what came out, of everything that differs."""
    before = {**check.stored.metrics, "epochs": check.stored.epochs}
    after = {**check.again.metrics, "epochs": check.again.epochs}
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return "; ".join(f"{name} {before.get(name, '-')} is now {after.get(name, '-')}" for name in names)
