"""The same with plain Redis commands, for languages without a BullMQ client.

    pip install redis numpy
    python with_redis.py [MODEL] [REDIS_URL]
"""

import json
import secrets
import sys

import numpy as np
import redis

from millrace_wire import PREFIX, decode_replies, encode_bundle, keys_of_environment, queue_name, reply_key

TIMEOUT_MS = 10_000


def add_job(connection, queue, bundle, now_ms):
    """What BullMQ's `add` does for a job without delay and priority, in one transaction."""
    base = f"{PREFIX}:{queue}"
    options = {"attempts": 2, "removeOnComplete": {"count": 500}}
    paused = connection.hexists(f"{base}:meta", "paused")
    with connection.pipeline(transaction=True) as pipe:
        pipe.hset(
            f"{base}:{bundle.job_id}",
            mapping={
                "name": "infer",
                "data": json.dumps(bundle.data),
                "opts": json.dumps(options),
                "timestamp": now_ms,
                "delay": 0,
                "priority": 0,
            },
        )
        pipe.lpush(f"{base}:paused" if paused else f"{base}:wait", bundle.job_id)
        if not paused:
            pipe.zadd(f"{base}:marker", {"0": 0})  # wakes a worker that waits
        pipe.execute()


def infer(connection, producer, model, requests):
    """The answers to these requests, which travel as one bundle."""
    seconds, micros = connection.time()
    now_ms = seconds * 1000 + micros // 1000
    keys = keys_of_environment()
    bundle = encode_bundle(producer, secrets.token_urlsafe(9), model, requests, now_ms + TIMEOUT_MS, keys)
    for key, data in bundle.payloads.items():
        connection.set(key, data, px=TIMEOUT_MS + 30_000)
    add_job(connection, queue_name(model), bundle, now_ms)

    answers, last = {}, "0"
    while len(answers) < len(requests):
        found = connection.xread({reply_key(producer): last}, block=TIMEOUT_MS)
        if not found:
            raise TimeoutError("no answer in time: is there a worker for the model?")
        ((_, entries),) = found
        for last, fields in entries:
            if keys is None or keys.signed_reply(fields, producer):  # else somebody made it up
                answers.update(decode_replies(fields[b"b"]))
    connection.delete(reply_key(producer))
    return [answers[sequence] for sequence in range(len(requests))]


def main(model="digits_mlp", url="redis://127.0.0.1:6379"):
    connection = redis.from_url(url, protocol=2, socket_timeout=TIMEOUT_MS / 1000 + 5)
    pixels = np.random.default_rng(0).random((3, 1, 64), dtype=np.float32)
    for answer in infer(connection, f"py{secrets.token_urlsafe(9)}", model, [{"pixels": rows} for rows in pixels]):
        if isinstance(answer, Exception):
            raise answer
        print("label", int(answer["label"].ravel()[0]), "probability", float(answer["probabilities"].max()))
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
