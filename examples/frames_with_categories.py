"""Learn pandas frames whose strings and categories are categories, without an encoder."""

import pandas as pd
from made import NAMES, rentals

from streamtree import SelfTerminatingTreeClassifier

frame = pd.DataFrame(rentals(), columns=NAMES)
when = pd.to_datetime(frame.pop("when"))
frame["weather"] = frame["weather"].astype("category")
frame["day"] = when.dt.day_name()  # strings
frame["hour"] = when.dt.hour.astype("category")  # numbers that are names
is_busy = frame.pop("rented") > 150

model = SelfTerminatingTreeClassifier()
model.learn_many(frame[:3000], is_busy[:3000])
right = model.predict_many(frame[3000:]) == is_busy[3000:]
print(f"{right.mean():.1%} of the last {len(right)} hours")
