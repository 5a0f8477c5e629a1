"""Learn a Parquet file that need not fit into memory, batch by batch."""

import polars as pl
from made import rentals_parquet

from streamtree import SoftTreeRegressor

model, error, rows = SoftTreeRegressor(), 0.0, 0
when = pl.col("when").dt
lazy = pl.scan_parquet(rentals_parquet()).with_columns(
    hour=when.hour().cast(pl.String), is_weekend=when.weekday() > 5
)
for batch in lazy.drop("when").collect_batches(chunk_size=500, maintain_order=True):
    X, y = batch.drop("rented"), batch["rented"]
    said = model.test_then_learn_many(X, y)  # every row is predicted just before it is learned
    error, rows = error + (y - said).abs().sum(), rows + len(y)
print(f"mean absolute error {error / rows:.1f} in {rows} rows")
