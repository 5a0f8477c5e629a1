"""Learn from a CSV with dates, strings and missing cells, row by row."""

import csv
from datetime import datetime

from made import rentals_csv
from river import metrics

from streamtree import SelfTerminatingTreeRegressor

model, error = SelfTerminatingTreeRegressor(), metrics.MAE()
with open(rentals_csv(), newline="") as file:
    for row in csv.DictReader(file):
        when = datetime.fromisoformat(row["when"])
        x = {
            "hour": when.hour,
            "weekday": when.weekday(),
            "weather": row["weather"],  # a string is a category
            "temperature": float(row["temperature"]) if row["temperature"] else None,
        }
        y = float(row["rented"])
        error.update(y, model.predict_one(x))
        model.learn_one(x, y)
print(error)
