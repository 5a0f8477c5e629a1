"""Predict a number, and an interval that holds nine of ten targets."""

from river.datasets import synth

from streamtree import ExtraTreeRegressor

model, inside, rows = ExtraTreeRegressor(), 0, 0
for x, y in synth.Friedman(seed=1).take(4000):
    interval = model.predict_one(x, with_interval=True, confidence_level=0.9)
    inside += interval.lower <= y <= interval.upper
    rows += 1
    model.learn_one(x, y)

print(f"{inside / rows:.0%} of {rows} targets lie in their intervals")
print(f"the last one: {y:.1f}, predicted {model.predict_one(x):.1f}, {interval}")
