"""``condiff forecast`` and ``condiff impute``: the coming steps of many series, and the steps that are missing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from condiff.cli.output import (
    FORMULAS_HELP,
    check_out,
    console,
    formula_notes,
    print_json,
    typed,
    working,
    write_csv,
)
from condiff.errors import InvalidInputError
from condiff.files import atomic_path, write_text
from condiff.readers.cells import listed

if TYPE_CHECKING:
    from condiff.estimators.forecasting import PanelForecaster
    from condiff.readers.series import SeriesFile

# Series that the terminal shows; the file has all.
_SHOWN = 12

_Panel = Annotated[
    Path,
    typer.Argument(
        metavar="PANEL.csv", help="Long (columns unique_id, ds, y) or wide (first column the time, others the series)."
    ),
]
_Edges = Annotated[
    Path | None,
    typer.Option(
        metavar="EDGES.csv",
        help="Columns source, target and perhaps weight and day. Without it, neighbours are found.",
    ),
]
_Positions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.csv",
        help="A line per series, its name first, then x and y or latitude and longitude: the nearest are neighbours, "
        "where no edges are given, and pictures are maps.",
    ),
]
_Static = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.csv",
        help="Other features, a line per series, its name first, numbers or words: the most alike are neighbours.",
    ),
]
_Neighbours = Annotated[
    str,
    typer.Option(
        metavar="correlation|warping",
        help="How neighbours are found in the values: by the correlation of steps, or by dynamic time warping.",
    ),
]
_Directed = Annotated[bool, typer.Option("--directed", help="An edge lets only its source average over its target.")]
_Covariates = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.csv",
        help="What is known of all times and of those to come (holidays, prices): a line per time, or per time and "
        "unique_id.",
    ),
]
_Season = Annotated[
    str,
    typer.Option(
        metavar="N[,N]|auto|none", help="Steps of a season; auto: the calendar's, as 12 for months and 7 for days."
    ),
]
_Levels = Annotated[str, typer.Option(metavar="N,N", help="Percent of the truth that intervals should hold.")]
_Formulas = Annotated[bool, typer.Option("--formulas", help=FORMULAS_HELP)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")]


def forecast(
    panel: _Panel,
    horizon: Annotated[int, typer.Option(min=1, help="Steps to forecast.")] = 1,
    edges: _Edges = None,
    positions: _Positions = None,
    static: _Static = None,
    neighbours: _Neighbours = "correlation",
    directed: _Directed = False,
    covariates: _Covariates = None,
    season: _Season = "auto",
    levels: _Levels = "80,95",
    paths: Annotated[int, typer.Option(min=0, help="Possible futures to write as well, in columns path-1, ...")] = 0,
    folds: Annotated[
        int, typer.Option(min=1, help="Forecasts of the back-test, at most; more where values are missing.")
    ] = 24,
    lags: Annotated[int, typer.Option(min=1, help="Steps that the network looks back on.")] = 8,
    inits: Annotated[int, typer.Option(min=1, help="Networks whose forecasts are averaged.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of initialisations, dropout and paths.")] = 0,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Save the fitted forecaster here, for condiff.load.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw a fan chart of twelve series; .svg and .pdf too.")
    ] = None,
    graph_plot: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE.png", help="Draw the series, their neighbours and what is to change."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with the back-test, the map and all fans.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE.csv", help="Where to write the forecast.")] = Path("forecast.csv"),
    formulas: _Formulas = False,
    json: _Json = False,
) -> None:
    """Forecast the coming steps of many series at once, with holes, and with what a graph of the series knows.

    The calendar is found and kept: months stay months. Empty cells and rows that are left out are missing values, and
    nothing needs to be filled in. Each series has a level, a trend and a season of its own; what they leave is diffused
    over the graph. A rolling back-test chooses how much of each is in the forecast, beside the last value and the value
    of a season ago: where these are as good, they are what is written, and a line says so. Its errors are also where
    the intervals come from.

    [dim]Examples[/dim]

    [bold]condiff forecast sales.csv --horizon 6[/bold]  (months, say, with neighbours by correlation)

    [bold]condiff forecast cases.csv --edges borders.csv --horizon 14 --levels 50,80,95 --report cases.html[/bold]

    [bold]condiff forecast load.csv --positions places.csv --covariates weather.csv --horizon 24 --map map.png[/bold]
    """
    started = time.perf_counter()
    wanted = _checked_levels(levels)
    inputs = [path for path in (panel, edges, positions, static, covariates) if path is not None]
    check_out(out, *inputs, suffixes=[".csv"])
    _check_endings({"--plot": plot, "--map": graph_plot})
    _check_endings({"--report": report}, (".html",))
    if model is not None:
        from condiff.estimators.folders import check_folder

        check_folder(model)
    data, given, drawn = _read(panel, edges, positions, static, directed, covariates, horizon)
    # Only now that the files are read: this takes seconds.
    from condiff.estimators.forecasting import PanelForecaster

    forecaster = PanelForecaster(
        horizon=horizon,
        season=_season(season),
        neighbours=_checked_neighbours(neighbours),
        folds=folds,
        lags=lags,
        n_inits=inits,
        random_state=seed,
    )
    with working("back-test and fit"):
        forecaster.fit(data, **given)
    rows = _forecast_rows(data, forecaster, wanted, paths)
    notes = formula_notes(_write(rows, out, formulas)) + _remarks(data, covariates is None)
    summary: dict[str, Any] = {
        **_about(data, forecaster, _found_by(given, neighbours)),
        "horizon": horizon,
        "levels": wanted,
        "folds": len(forecaster.backtest_.origins),
        "shares": forecaster.shares_,
        "mixture": forecaster.shares_in_words(),
        "backtest": _scores(forecaster),
        "coverage": {f"{level:g}": _finite(held) for level, held in _coverage(forecaster, wanted).items()},
        "forecast": rows,
        "seconds": time.perf_counter() - started,
        "out": str(out),
        "notes": notes,
    }
    if model is not None:
        forecaster.save(model, {"step": data.calendar.step, "places": None if drawn is None else drawn.tolist()})
    _draw(forecaster, wanted, drawn, plot, graph_plot, report, panel.stem)
    if json:
        print_json([summary])
    else:
        _show(data, summary)


def impute(
    panel: _Panel,
    edges: _Edges = None,
    positions: _Positions = None,
    static: _Static = None,
    neighbours: _Neighbours = "correlation",
    directed: _Directed = False,
    season: _Season = "auto",
    levels: _Levels = "80,95",
    wide: Annotated[
        bool, typer.Option("--wide", help="Write a line per time and a column per series, without intervals.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the known values that are hidden to choose by.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Draw twelve series with their holes filled; .svg, .pdf too."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE.csv", help="Where to write the panel.")] = Path("filled.csv"),
    formulas: _Formulas = False,
    json: _Json = False,
) -> None:
    """Fill the holes of a panel: from before, from after and from the neighbours, and say how sure each value is.

    Some of the known values are hidden and filled again, which chooses between the diffusion over the graph and
    straight lines in time, and gives the intervals. Known values stay as they are.

    [dim]Examples[/dim]

    [bold]condiff impute sensors.csv --positions places.csv[/bold]

    [bold]condiff impute cases.csv --edges borders.csv --wide --out whole.csv[/bold]
    """
    started = time.perf_counter()
    wanted = _checked_levels(levels)
    check_out(out, *[path for path in (panel, edges, positions, static) if path is not None], suffixes=[".csv"])
    _check_endings({"--plot": plot})
    data, given, _ = _read(panel, edges, positions, static, directed, None, 1)
    from condiff.estimators.forecasting import PanelForecaster

    with working("filling holes"):
        forecaster = PanelForecaster(
            season=_season(season),
            neighbours=_checked_neighbours(neighbours),
            parts=("last value",),
            random_state=seed,
        )
        filled = forecaster.fit(data, **given).impute()
    rows = _wide_rows(data, filled.values) if wide else _filled_rows(data, filled, wanted)
    notes = formula_notes(_write(rows, out, formulas)) + _remarks(data)
    if plot is not None:
        from condiff.pages.canvas import save
        from condiff.pages.forecast import draw_filled

        save(draw_filled(data.names, data.days, filled, wanted), plot)
    summary = {
        **_about(data, forecaster, _found_by(given, neighbours)),
        "filled": int(filled.holes.sum()),
        "shares": filled.shares,
        "errors": {name: _finite(error) for name, error in filled.errors.items()},
        "seconds": time.perf_counter() - started,
        "out": str(out),
        "notes": notes,
    }
    if json:
        print_json([summary])
        return
    _show_data(data, summary)
    console.print(f"[bold]filled[/bold] {summary['filled']:,} values: {_mixture(filled.shares)}")
    table = Table(box=None, pad_edge=False, header_style="bold", title="On known values, hidden", title_justify="left")
    table.add_column("way")
    table.add_column("mean absolute error", justify="right")
    for name, error in filled.errors.items():
        table.add_row(name, _number(_finite(error)), style="green" if name == "filled" else "")
    console.print(table)
    _end(summary)


def _check_endings(paths: dict[str, Path | None], endings: tuple[str, ...] = (".png", ".svg", ".pdf")) -> None:
    for option, path in paths.items():
        if path is not None and path.suffix not in endings:
            raise InvalidInputError(f"{option} must end in {' or '.join(endings)}, but is {path}")


def _checked_levels(text: str) -> list[float]:
    """Levels in percent, the narrowest first."""
    from condiff.readers.cells import as_number

    found = [as_number(part.strip()) for part in text.split(",")]
    if any(level is None or not 0 < level < 100 for level in found):
        raise InvalidInputError(f"--levels are percents above 0 and below 100, such as 50,80,95, not {text!r}")
    return sorted({float(level) for level in found if level is not None})


def _season(text: str) -> Any:
    word = text.strip().lower()
    if word == "auto":
        return word
    if word == "none":
        return None
    parts = [part.strip() for part in word.split(",")]
    if not all(part.isdecimal() and int(part) >= 2 for part in parts):
        raise InvalidInputError(
            f"--season must be auto, none or numbers of steps from 2 on, such as 24,168, not {text!r}"
        )
    return tuple(int(part) for part in parts)


def _checked_neighbours(text: str) -> str:
    from condiff.estimators.forecasting.panel import FOUND

    if text not in FOUND:
        raise InvalidInputError(f"--neighbours must be {' or '.join(FOUND)}, not {text!r}")
    return text


def _read(
    panel: Path,
    edges: Path | None,
    positions: Path | None,
    static: Path | None,
    directed: bool,
    covariates: Path | None,
    horizon: int,
) -> tuple[SeriesFile, dict[str, Any], Any]:
    """The panel, what else a forecaster is given, and where series are drawn, if it is known."""
    from condiff.readers.series import read_covariates, read_positions, read_series, read_static

    for option, path in (("--edges", edges), ("--positions", positions)):
        if static is not None and path is not None:
            raise InvalidInputError(f"{option} and --static both say who is a neighbour: give one of them")
    if directed and edges is None:
        raise InvalidInputError("--directed is about edges: give them with --edges")
    data = read_series(panel, edges, directed=directed)
    given: dict[str, Any] = {}
    if data.weights:
        given["graph"] = data.weights[0] if len(data.weights) == 1 else list(data.weights)
    places = None if positions is None else read_positions(positions, data.names)
    if places is not None and edges is None:
        given["positions"] = places.points
    if static is not None:
        given["static"] = read_static(static, data.names)
    if covariates is not None:
        given["covariates"] = read_covariates(covariates, data, horizon)
    return data, given, None if places is None else places.drawn


def _forecast_rows(
    data: SeriesFile, forecaster: PanelForecaster, levels: list[float], paths: int
) -> list[dict[str, Any]]:
    """One row for each coming step and series."""
    middle, bands = forecaster.predict(), _bands(forecaster, levels)
    futures = forecaster.sample(paths) if paths else np.empty((0, *middle.shape))
    return [
        {
            "unique_id": name,
            "ds": day,
            "forecast": float(middle[step, place]),
            **{
                f"{end}-{level:g}": _finite(bands[level][which, step, place])
                for level in levels
                for which, end in enumerate(("lo", "hi"))
            },
            **{f"path-{number}": float(future[step, place]) for number, future in enumerate(futures, start=1)},
        }
        for place, name in enumerate(data.names)
        for step, day in enumerate(data.coming_days(len(middle)))
    ]


def _bands(forecaster: PanelForecaster, levels: list[float]) -> dict[float, Any]:
    """The ends of the intervals, (2, horizon, series), by level."""
    return {level: forecaster.predict_quantiles([0.5 - level / 200, 0.5 + level / 200]) for level in levels}


def _coverage(forecaster: PanelForecaster, levels: list[float]) -> dict[float, float]:
    """The share of the back-test's values within intervals made of the errors of all other origins."""
    return {level: forecaster.spread_.held_out_coverage(level / 100) for level in levels}


def _filled_rows(data: SeriesFile, filled: Any, levels: list[float]) -> list[dict[str, Any]]:
    bands = {level: filled.quantiles([0.5 - level / 200, 0.5 + level / 200]) for level in levels}
    return [
        {
            "unique_id": name,
            "ds": day,
            "y": float(filled.values[step, place]),
            "filled": int(filled.holes[step, place]),
            **{
                f"{end}-{level:g}": _finite(bands[level][which, step, place])
                for level in levels
                for which, end in enumerate(("lo", "hi"))
            },
        }
        for place, name in enumerate(data.names)
        for step, day in enumerate(data.days)
    ]


def _wide_rows(data: SeriesFile, values: Any) -> list[dict[str, Any]]:
    return [
        {"ds": day, **{name: float(value) for name, value in zip(data.names, row, strict=True)}}
        for day, row in zip(data.days, values, strict=True)
    ]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _about(data: SeriesFile, forecaster: PanelForecaster, by: str) -> dict[str, Any]:
    return {
        "series": len(data.names),
        "times": len(data.days),
        "step": data.calendar.step,
        "season": list(forecaster.season_),
        "missing": float(np.isnan(data.values).mean()),
        "graphs": len(data.weights),
        "neighbours": int(forecaster.graph_.weights.nnz),
        "by": by,
    }


def _found_by(given: dict[str, Any], neighbours: str) -> str:
    """What says who is a neighbour."""
    for name, said in (("graph", "edges"), ("positions", "positions"), ("static", "features")):
        if name in given:
            return said
    return neighbours


def _scores(forecaster: PanelForecaster) -> list[dict[str, Any]]:
    return [
        {"method": name, **dict(zip(("mase", "mae", "rmse"), map(_finite, errors), strict=True))}
        for name, errors in forecaster.backtest_.scores().items()
    ]


def _remarks(data: SeriesFile, could_be_given: bool = False) -> list[str]:
    """What a user may not have meant."""
    found = []
    if data.left_out:
        found.append(f"{data.left_out} of {len(data.days)} times have no line and are missing values")
    if data.unread:
        told = "; what is known of the coming times as well is for --covariates" if could_be_given else ""
        found.append(f"not read: {listed(list(data.unread), 6)}{told}")
    empty = [name for name, column in zip(data.names, data.values.T, strict=True) if np.isnan(column).all()]
    if empty:
        found.append(f"without any value, so that the others stand for them: {listed(empty, 6)}")
    return found


def _write(rows: list[dict[str, Any]], out: Path, formulas: bool) -> int:
    cells = ([round(value, 6) if isinstance(value, float) else value for value in row.values()] for row in rows)
    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        return write_csv(rows[0], cells, stream, formulas=formulas)


def _draw(
    forecaster: PanelForecaster,
    levels: list[float],
    drawn: Any,
    plot: Path | None,
    graph_plot: Path | None,
    report: Path | None,
    name: str,
) -> None:
    if plot is None and graph_plot is None and report is None:
        return
    from condiff.pages.canvas import save
    from condiff.pages.forecast import Fan, Surroundings, draw_fans, draw_map, forecaster_page

    fan = Fan.of(forecaster, levels)
    if plot is not None:
        save(draw_fans(fan), plot)
    if graph_plot is not None:
        save(draw_map(fan, Surroundings(forecaster.graph_.weights, drawn, forecaster.backtest_.scale)), graph_plot)
    if report is not None:
        write_text(report, forecaster_page(forecaster, name, typed(), levels, drawn))


def _show(data: SeriesFile, summary: dict[str, Any]) -> None:
    _show_data(data, summary)
    console.print(f"[bold]mix[/bold]    {summary['mixture']}")
    if summary["backtest"]:
        console.print(_score_table(summary))
        held = [
            f"{level} % intervals hold {100 * share:.0f} %" for level, share in summary["coverage"].items() if share
        ]
        if held:
            console.print("; ".join(held) + "\n")
        elif any(row[f"lo-{level:g}"] is not None for row in summary["forecast"] for level in summary["levels"]):
            console.print("[yellow]the intervals are those of one forecast: nothing was left to test them[/yellow]\n")
        else:
            console.print("[yellow]there are no error bars: no value to compare with[/yellow]\n")
    else:
        console.print("[yellow]there are no error bars: too few steps for a back-test[/yellow]\n")
    console.print(_forecast_table(data, summary))
    _end(summary)


def _show_data(data: SeriesFile, summary: dict[str, Any]) -> None:
    span = f"{escape(data.days[0])} to {escape(data.days[-1])}"
    season = f", season of {' and '.join(map(str, summary['season']))} steps" if summary["season"] else ""
    console.print(
        f"[bold]data[/bold]   {summary['series']} series, {summary['times']} times ({span}), "
        f"{escape(summary['step'])}{season}, {100 * summary['missing']:.0f} % missing"
    )
    edges = [graph.nnz for graph in data.weights]
    if len(edges) > 1:
        said = f"{len(edges)} graphs of {min(edges):,} to {max(edges):,} weights"
    elif edges:
        said = f"{edges[0]:,} weights, the same for all times"
    else:
        said = f"{summary['neighbours']:,} weights, neighbours by {summary['by']}"
    console.print(f"[bold]graph[/bold]  {said}")


def _end(summary: dict[str, Any]) -> None:
    for remark in summary["notes"]:
        console.print(f"note: {remark}", markup=False)
    console.print(f"\nwritten to {summary['out']}, in {summary['seconds']:.1f} s", markup=False)


def _mixture(shares: dict[str, float]) -> str:
    return ", ".join(f"{100 * share:.0f} % {name}" for name, share in sorted(shares.items(), key=lambda each: -each[1]))


def _score_table(summary: dict[str, Any]) -> Table:
    each = "a forecast" if summary["folds"] == 1 else f"{summary['folds']} forecasts, each"
    title = f"Back-test: {each} made from the steps before alone"
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    table.add_column("part")
    for heading in ("MASE", "mean absolute error", "root mean square error"):
        table.add_column(heading, justify="right")
    for score in summary["backtest"]:
        style = "green" if score["method"] == "forecast" else ""
        table.add_row(score["method"], *(_number(score[key]) for key in ("mase", "mae", "rmse")), style=style)
    return table


def _forecast_table(data: SeriesFile, summary: dict[str, Any]) -> Table:
    """The series with the largest forecasts, one line each; the first and the last of several steps."""
    rows, steps = summary["forecast"], summary["horizon"]
    series = [rows[begin : begin + steps] for begin in range(0, len(rows), steps)]
    order = sorted(range(len(series)), key=lambda place: (-series[place][0]["forecast"], place))[:_SHOWN]
    shown = "" if len(order) == len(series) else f" ({len(order)} of {len(series)} series, the largest)"
    table = Table(box=None, pad_edge=False, header_style="bold", title=f"Forecast{shown}", title_justify="left")
    table.add_column("series")
    level = f"{summary['levels'][0]:g}"
    which = [0] if steps == 1 else [0, steps - 1]
    for step in which:
        table.add_column(escape(rows[step]["ds"]), justify="right")
        table.add_column(f"{level} %", justify="right", style="dim")
    for place in order:
        cells = [escape(data.names[place])]
        for row in (series[place][step] for step in which):
            ends = f"{_number(row[f'lo-{level}'])} to {_number(row[f'hi-{level}'])}"
            cells += [f"[bold]{_number(row['forecast'])}[/bold]", ends]
        table.add_row(*cells)
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
