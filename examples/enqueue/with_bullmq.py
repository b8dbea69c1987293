"""Enqueues requests with BullMQ's Python client and waits for the answers.

    pip install bullmq numpy
    python with_bullmq.py [MODEL] [REDIS_URL]

Needs a worker that serves the model; no producer. Without arguments: digits_mlp, redis://127.0.0.1:6379.
"""

import asyncio
import secrets
import sys

import numpy as np
import redis.asyncio
from bullmq import Queue

from millrace_wire import PREFIX, decode_replies, encode_bundle, keys_of_environment, queue_name, reply_key

TIMEOUT_MS = 10_000


async def infer(connection, queue, producer, model, requests):
    """The answers to these requests, which travel as one bundle and run in one batch where they fit together."""
    seconds, micros = await connection.time()
    now_ms = seconds * 1000 + micros // 1000
    keys = keys_of_environment()
    bundle = encode_bundle(producer, secrets.token_urlsafe(9), model, requests, now_ms + TIMEOUT_MS, keys)
    for key, data in bundle.payloads.items():  # before the job: a worker may take it at once
        await connection.set(key, data, px=TIMEOUT_MS + 30_000)
    await queue.add("infer", bundle.data, {"jobId": bundle.job_id, "attempts": 2, "removeOnComplete": {"count": 500}})

    answers, last = {}, "0"
    while len(answers) < len(requests):
        found = await connection.xread({reply_key(producer): last}, block=TIMEOUT_MS)
        if not found:
            raise TimeoutError("no answer in time: is there a worker for the model?")
        ((_, entries),) = found
        for last, fields in entries:
            if keys is None or keys.signed_reply(fields, producer):  # else somebody made it up
                answers.update(decode_replies(fields[b"b"]))
    await connection.delete(reply_key(producer))
    return [answers[sequence] for sequence in range(len(requests))]


async def main(model="digits_mlp", url="redis://127.0.0.1:6379"):
    connection = redis.asyncio.from_url(url, protocol=2, socket_timeout=TIMEOUT_MS / 1000 + 5)
    queue = Queue(queue_name(model), {"connection": url, "prefix": PREFIX})
    producer = f"py{secrets.token_urlsafe(9)}"
    pixels = np.random.default_rng(0).random((3, 1, 64), dtype=np.float32)
    try:
        for answer in await infer(connection, queue, producer, model, [{"pixels": rows} for rows in pixels]):
            if isinstance(answer, Exception):
                raise answer
            print("label", int(answer["label"].ravel()[0]), "probability", float(answer["probabilities"].max()))
    finally:
        await queue.close()
        await connection.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
