"""``condiff forecast``: the coming days of many regions, with error bars from a rolling back-test."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from condiff.cli.output import FORMULAS_HELP, check_out, console, formula_notes, print_json, progress, write_csv
from condiff.errors import InvalidInputError
from condiff.files import atomic_path

if TYPE_CHECKING:
    from condiff.estimators.forecaster import Backtest
    from condiff.readers.series import SeriesFile

# Regions that the terminal shows; the file has all.
_SHOWN = 12


def command(
    series: Annotated[
        Path, typer.Argument(metavar="SERIES.csv", help="First column the day, every other one a region.")
    ],
    edges: Annotated[
        Path, typer.Option(metavar="EDGES.csv", help="Columns source, target and perhaps weight and day.")
    ],
    horizon: Annotated[int, typer.Option(min=1, help="Days to forecast.")] = 1,
    lags: Annotated[int, typer.Option(min=1, help="Days to look back on.")] = 8,
    directed: Annotated[
        bool, typer.Option("--directed", help="An edge lets only its source average over its target.")
    ] = False,
    folds: Annotated[int, typer.Option(min=1, help="Last days that the back-test begins a forecast on.")] = 8,
    coverage: Annotated[float, typer.Option(help="How much of the truth an error bar should hold.")] = 0.8,
    inits: Annotated[int, typer.Option(min=1, help="Networks whose forecasts are averaged.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of initialisations and dropout.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FILE.csv", help="Where to write the forecast.")] = Path("forecast.csv"),
    formulas: Annotated[bool, typer.Option("--formulas", help=FORMULAS_HELP)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Forecast the coming days of every region, diffused over the graph of the regions.

    Empty cells are missing values: nothing needs to be filled in. Error bars come from a back-test: forecasts as they
    would have been made on each of the last days, from the days before. It is shown beside the last value and the mean
    of the last week, so that you see whether the forecast is worth it.

    Example: [bold]condiff forecast cases.csv --edges borders.csv --horizon 3[/bold]
    """
    from condiff.readers.series import read_series

    started = time.perf_counter()
    if not 0 < coverage < 1:
        raise InvalidInputError(f"--coverage must be above 0 and below 1, not {coverage}")
    check_out(out, series, edges, suffixes=[".csv"])
    data = read_series(series, edges, directed=directed)
    # Only now that the files are read: this takes seconds.
    from condiff.estimators.forecaster import PanelForecaster, backtest

    graph = data.weights[0] if len(data.weights) == 1 else list(data.weights)
    forecaster = PanelForecaster(horizon=horizon, lags=lags, n_inits=inits, random_state=seed)
    tested = backtest(
        forecaster, data.values, graph, folds, follow=lambda days, total: progress(days, total, "back-test")
    )
    forecaster.fit(data.values, graph)
    rows = _rows(data, forecaster, tested, coverage)
    notes = formula_notes(_write(rows, out, formulas))
    scores = _scores(tested)
    summary: dict[str, Any] = {
        "days": len(data.days),
        "regions": len(data.names),
        "missing": float(np.isnan(data.values).mean()),
        "graphs": len(data.weights),
        "horizon": horizon,
        "coverage": coverage,
        "folds": len(tested.origins),
        "backtest": scores,
        "forecast": rows,
        "seconds": time.perf_counter() - started,
        "out": str(out),
        "notes": notes,
    }
    if json:
        print_json([summary])
    else:
        _show(data, summary)


def _rows(data: SeriesFile, forecaster: Any, tested: Backtest, coverage: float) -> list[dict[str, Any]]:
    """One row for each coming day and region."""
    from condiff.estimators.forecaster import last_values

    forecast = forecaster.predict()
    last = last_values(data.values)
    naive = np.where(np.isnan(last), forecaster.mean_, last)
    margins = {name: tested.margin(name, forecaster.scale_, coverage) for name in ("COIN", "last value")}
    floor = 0.0 if np.nanmin(data.values) >= 0 else -np.inf

    def with_bar(name: str, method: str, value: float, step: int, region: int) -> dict[str, float | None]:
        margin = margins[method][step, region]
        prefix = "" if name == "forecast" else f"{name}_"
        low, high = max(value - margin, floor), value + margin
        return {name: float(value), f"{prefix}low": _finite(low), f"{prefix}high": _finite(high)}

    return [
        {
            "day": day,
            "region": name,
            **with_bar("forecast", "COIN", forecast[step, region], step, region),
            **with_bar("last_value", "last value", naive[region], step, region),
        }
        for step, day in enumerate(data.coming_days(len(forecast)))
        for region, name in enumerate(data.names)
    ]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _scores(tested: Backtest) -> list[dict[str, Any]]:
    return [
        {
            "method": name,
            "mae": _finite(tested.mean_absolute_error(name)),
            "rmse": _finite(tested.root_mean_square_error(name)),
        }
        for name in tested.forecasts
    ]


def _write(rows: list[dict[str, Any]], out: Path, formulas: bool) -> int:
    cells = ([round(value, 6) if isinstance(value, float) else value for value in row.values()] for row in rows)
    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        return write_csv(rows[0], cells, stream, formulas=formulas)


def _show(data: SeriesFile, summary: dict[str, Any]) -> None:
    edges = [graph.nnz for graph in data.weights]
    span = f"{escape(data.days[0])} to {escape(data.days[-1])}"
    console.print(
        f"[bold]data[/bold]   {summary['days']} days ({span}), {summary['regions']} regions, "
        f"{100 * summary['missing']:.0f} % missing"
    )
    several = f"{len(edges)} graphs of {min(edges):,} to {max(edges):,} weights" if len(edges) > 1 else ""
    console.print(f"[bold]graph[/bold]  {several or f'{edges[0]:,} weights, the same for all days'}\n")
    console.print(_score_table(summary))
    console.print(f"{_verdict(summary['backtest'])}\n")
    console.print(_forecast_table(data, summary))
    for remark in summary["notes"]:
        console.print(f"note: {remark}", markup=False)
    console.print(f"\nwritten to {summary['out']}, in {summary['seconds']:.1f} s", markup=False)


def _score_table(summary: dict[str, Any]) -> Table:
    title = f"Back-test: forecasts begun on each of the last {summary['folds']} days"
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    table.add_column("method")
    for heading in ("mean absolute error", "root mean square error"):
        table.add_column(heading, justify="right")
    best = min((score["mae"] for score in summary["backtest"] if score["mae"] is not None), default=None)
    for score in summary["backtest"]:
        style = "green" if score["mae"] is not None and score["mae"] == best else ""
        table.add_row(score["method"], _number(score["mae"]), _number(score["rmse"]), style=style)
    return table


def _verdict(scores: list[dict[str, Any]]) -> str:
    """Whether the forecast is worth it: it should win by both measures."""
    own, others = scores[0], scores[1:]
    if own["mae"] is None:
        return "[yellow]none of the values to compare with is known: there are no error bars[/yellow]"
    rival = min(others, key=lambda score: score["rmse"])
    wins = [own[measure] < rival[measure] for measure in ("mae", "rmse")]
    if all(wins):
        return f"{100 * (1 - own['rmse'] / rival['rmse']):.0f} % less error than the {rival['method']}"
    if any(wins):
        return f"about as good as the {rival['method']}"
    return f"[yellow]no better than the {rival['method']}: here the simple forecast does as well[/yellow]"


def _forecast_table(data: SeriesFile, summary: dict[str, Any]) -> Table:
    """The regions with the largest forecasts, one line each; the first and the last of several days."""
    rows, regions = summary["forecast"], len(data.names)
    first, last = rows[:regions], rows[-regions:]
    order = sorted(range(regions), key=lambda region: (-first[region]["forecast"], region))[:_SHOWN]
    shown = "" if len(order) == regions else f" ({len(order)} of {regions} regions, the largest)"
    table = Table(box=None, pad_edge=False, header_style="bold", title=f"Forecast{shown}", title_justify="left")
    table.add_column("region")
    table.add_column("last value", justify="right")
    bars = f"{100 * summary['coverage']:.0f} %"
    days = [first] if summary["horizon"] == 1 else [first, last]
    for day in days:
        table.add_column(escape(day[0]["day"]), justify="right")
        table.add_column(bars, justify="right", style="dim")
    for region in order:
        cells = [escape(data.names[region]), _number(first[region]["last_value"])]
        for day in days:
            row = day[region]
            cells += [f"[bold]{_number(row['forecast'])}[/bold]", f"{_number(row['low'])} to {_number(row['high'])}"]
        table.add_row(*cells)
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
