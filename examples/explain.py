"""Explain one prediction: what it is made of, and the way through the tree."""

from river import datasets

from streamtree import ModelTreeClassifier

model = ModelTreeClassifier()
for x, y in datasets.Phishing():
    model.learn_one(x, y)

made_of = model.contributions_one(x)
print(f"{made_of['label']}, with probability {made_of['score']:.2f}:")
print(f"  {made_of['bias']:+.2f} without any feature")
for name, part in list(made_of["features"].items())[:4]:
    print(f"  {part:+.2f} by {name} = {x[name]}")
print(model.debug_one(x))
