"""Search for parameters with scikit-learn."""

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from streamtree.sklearn import ModelTreeClassifier

X, y = load_digits(return_X_y=True)
search = GridSearchCV(
    ModelTreeClassifier(),
    {"learning_rate": [1.0, 2.5, 5.0], "leaf_model": ["softmax", "adaptive"]},
    cv=3,
)
search.fit(X, y)
print(f"{search.best_score_:.3f} with {search.best_params_}")
