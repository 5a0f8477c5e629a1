"""A model for every user from a Kafka topic: every message is learned once, though some come twice.

Brokers deliver at least once. The models know how many messages are behind them: after a restart
the consumer drops what they have learned already. It runs here by FastStream's broker in memory;
with Kafka leave out `TestKafkaBroker` and run it by `faststream run`.
"""

import asyncio
import os

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}

import pandas as pd
import ray
from faststream.kafka import KafkaBroker, TestKafkaBroker
from river import datasets

from streamtree import ModelTreeClassifier
from streamtree.distributed import KeyedModels

broker = KafkaBroker("localhost:9092", logger=None)
ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
models = KeyedModels(ModelTreeClassifier(), 2, folder="models", checkpoint_rows=500)


@broker.subscriber("visits", batch=True, max_records=250)
async def learn(messages: list[dict]) -> None:
    new = [message for message in messages if message["offset"] >= models.position]
    if new and new[0]["offset"] > models.position:
        raise RuntimeError(f"messages from {models.position} on are missing")
    if new:
        rows = pd.DataFrame([message["x"] for message in new])
        labels, users = [m["y"] for m in new], [m["user"] for m in new]
        await asyncio.to_thread(models.learn_many, users, rows, labels)


async def main() -> None:
    messages = [
        {"offset": i, "user": f"user {i % 7}", "x": x, "y": y}
        for i, (x, y) in enumerate(datasets.Phishing())
    ]
    async with TestKafkaBroker(broker):
        for first in range(0, len(messages), 200):
            # 50 of them come a second time
            await broker.publish_batch(*messages[max(0, first - 50) : first + 200], topic="visits")
    models.checkpoint()
    print(f"{len(models)} models, {models.position} messages of {len(messages)}")


asyncio.run(main())
models.close()
ray.shutdown()
