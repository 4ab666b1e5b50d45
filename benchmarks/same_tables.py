"""Which of the ordinary tables are one data set under several names, by their contents.

    python benchmarks/same_tables.py

Columns of two tables are paired where nearly all values of one occur in the other, and rows are then looked up over the
paired columns together. What is printed was read once by eye, and written down in
`condiff.reproduce.datasets.ordinary_tables`: rows over three columns of small numbers are found in many a table, while
led7digit, of seven lights, and Salaries, of few columns, are known by their names.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from condiff.reproduce.datasets import ordinary_tables as tables

#: Columns to look rows up by, and the shares of rows that must be distinct and be found.
MOST_COLUMNS, FEWEST_COLUMNS, DISTINCT, FOUND = 6, 3, 0.5, 0.75


def numbers(columns):
    """Every column with three values at least as rounded numbers, categories by their order, and its set of values."""
    import pandas as pd

    found = {}
    for name in columns:
        values = pd.to_numeric(columns[name], errors="coerce")
        if values.notna().mean() < 0.7:
            values = pd.Series(pd.factorize(columns[name].astype(str).str.strip().str.lower(), sort=True)[0])
        values = np.round(values.to_numpy(float), 4)
        kinds = frozenset(values[np.isfinite(values)].tolist())
        if len(kinds) >= 3:
            found[name] = (np.nan_to_num(values, nan=-99991), kinds)
    return found


def paired(small, large):
    """Columns of the one with those of the other that they resemble most, those of many values first."""
    ranked = []
    for (one, (_, first)), (two, (_, second)) in itertools.product(small.items(), large.items()):
        shared = len(first & second)
        if shared > 0.9 * len(first):
            ranked.append((shared / len(first | second), len(first), one, two))
    pairs, taken = [], set()
    for _, size, one, two in sorted(ranked, key=lambda each: each[0], reverse=True):
        if ("small", one) not in taken and ("large", two) not in taken:
            taken |= {("small", one), ("large", two)}
            pairs.append((size, one, two))
    return [(one, two) for _, one, two in sorted(pairs, key=lambda each: -each[0])]


def share(contents, small, large, pairs):
    """The share of rows of the smaller table that the larger has; 0 where too few of them are distinct."""
    wanted = list(zip(*(contents[small][name][0].tolist() for name, _ in pairs), strict=True))
    if len(set(wanted)) <= DISTINCT * len(wanted):
        return 0.0
    there = set(zip(*(contents[large][name][0].tolist() for _, name in pairs), strict=True))
    return float(np.mean([row in there for row in wanted]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    tables.MOST_ROWS, tables._FEWEST_OF_A_CLASS = 10**9, 1
    names = [*tables.table_names("classes"), *tables.table_names("values")]
    contents = {name: numbers(tables.load_table(name).columns) for name in names}
    rows = {name: len(next(iter(found.values()))[0]) for name, found in contents.items() if found}
    for one, two in itertools.combinations(rows, 2):
        small, large = sorted((one, two), key=rows.__getitem__)
        pairs = paired(contents[small], contents[large])
        best = max((share(contents, small, large, pairs[:k]), k) for k in range(FEWEST_COLUMNS, MOST_COLUMNS + 1))
        if len(pairs) >= FEWEST_COLUMNS and best[0] > FOUND:
            print(f"{100 * best[0]:3.0f} % of {small} in {large}, over {min(best[1], len(pairs))} columns", flush=True)


if __name__ == "__main__":
    main()
