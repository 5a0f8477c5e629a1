"""Made data for the examples: how many bicycles were rented in each hour, as files."""

import csv
import random
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

NAMES = ("when", "weather", "temperature", "rented")


def rentals(n=4000):
    """Rows of the hour, the weather, the temperature (sometimes missing), and the number rented."""
    chance = random.Random(1)
    for hours in range(n):
        when = datetime(2025, 1, 1) + timedelta(hours=hours)
        weather = chance.choice(["sun", "clouds", "rain"])
        degrees = round(10 + hours / 400 + chance.gauss(0, 3), 1)
        is_busy = 8 <= when.hour <= 19 and when.weekday() < 5
        rented = 40 + 120 * is_busy - 30 * (weather == "rain") + 3 * degrees + chance.randint(0, 20)
        degrees = None if chance.random() < 0.05 else degrees
        yield when.isoformat(), weather, degrees, round(rented)


def rentals_csv(delimiter=",", decimal="."):
    """The path of a CSV with them."""
    path = Path(tempfile.mkdtemp()) / "rentals.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file, delimiter=delimiter)
        out.writerow(NAMES)
        for when, weather, degrees, rented in rentals():
            out.writerow([when, weather, str(degrees or "").replace(".", decimal), rented])
    return path


def rentals_parquet():
    """The path of a Parquet file with them."""
    import polars as pl

    path = Path(tempfile.mkdtemp()) / "rentals.parquet"
    frame = pl.DataFrame(list(rentals()), schema=NAMES, orient="row")
    frame.with_columns(pl.col("when").str.to_datetime()).write_parquet(path)
    return path
