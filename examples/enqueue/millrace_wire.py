"""Requests and answers as they lie in Redis; docs/wire.md describes each part. Needs numpy."""

import base64
import hashlib
import hmac
import json
import os
import struct
from dataclasses import dataclass

import numpy as np

PREFIX = "{millrace}"
DTYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
    "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
    "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}
DATATYPES = {np.dtype(code): name for name, code in DTYPES.items()}


class InferenceFailed(Exception):
    """What a worker answered instead of a result. `code` is one of docs/wire.md."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class QueueKeys:
    """The keys of a pool that signs what lies in Redis: the text of its --queue-key-file."""

    def __init__(self, text):
        lines = [line.split() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
        self.secrets = {name: base64.b64decode(secret) for name, secret in lines}
        self.first = lines[0][0]

    def mac(self, name, thing, about, data):
        head = f"millrace.{thing}.1\n{about}\n".encode()
        return hmac.new(self.secrets[name], head + data, hashlib.sha256).hexdigest()

    def sign_job(self, data, payloads, queue):
        """The data of a job with its signature, which holds in this queue alone."""
        base = f"{PREFIX}.tensor:{data['producer']}:{data['bundle']}"
        digests = {key[len(base) + 1 :] or "packed": hashlib.sha256(value).hexdigest() for key, value in payloads.items()}
        signed = json.dumps({**data, "sha256": digests})
        return {"signed": signed, "key": self.first, "mac": self.mac(self.first, "job", queue, signed.encode())}

    def signed_reply(self, fields, producer):
        """Whether an entry of the reply stream comes from the pool and is for this producer."""
        name, mac = fields.get(b"k", b"").decode(), fields.get(b"m", b"").decode()
        return name in self.secrets and hmac.compare_digest(self.mac(name, "reply", producer, fields[b"b"]), mac)


def keys_of_environment():
    """The keys of the file that MILLRACE_QUEUE_KEY_FILE names; None where the pool signs nothing."""
    path = os.environ.get("MILLRACE_QUEUE_KEY_FILE")
    if path is None:
        return None
    with open(path, encoding="utf-8") as file:
        return QueueKeys(file.read())


@dataclass(frozen=True)
class Bundle:
    """One BullMQ job: what to `SET` first, and its data."""

    job_id: str
    payloads: dict
    data: dict


def queue_name(model):
    """The BullMQ queue of a model: other bytes than letters, digits, _ . - are `~` and two hex digits."""
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
    return "".join(c if c in plain else "".join(f"~{byte:02x}" for byte in c.encode()) for c in model)


def reply_key(producer):
    """The stream on which this producer is answered."""
    return f"{PREFIX}.reply:{producer}"


def encode_bundle(producer, bundle, model, requests, deadline_ms, keys=None):
    """
    A bundle of requests, each a dict from input name to array. `deadline_ms` is on the clock of Redis. Requests are
    numbered from 0, so with keys a producer id is good for one bundle: an answer could be sent to the next one again.
    """
    items, parts, offset = [], [], 0
    for sequence, inputs in enumerate(requests):
        headers = []
        for name, array in inputs.items():
            data, header = encode_tensor(name, array)
            headers.append({**header, "offset": offset})
            parts.append(data)
            offset += len(data)
        items.append(
            {
                "sequence": sequence,
                "callId": f"{bundle}-{sequence}",
                "deadlineMs": deadline_ms,
                "inputs": headers,
            }
        )
    data = {"v": 1, "producer": producer, "bundle": bundle, "model": model, "items": items}
    payloads = {f"{PREFIX}.tensor:{producer}:{bundle}": b"".join(parts)}
    if keys:
        data = keys.sign_job(data, payloads, queue_name(model))
    return Bundle(f"{producer}-{bundle}", payloads, data)


def encode_tensor(name, array):
    """Bytes and header of a tensor. Texts are arrays of `object` or `S`."""
    if array.dtype.kind in "OSU":
        texts = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel()]
        data, datatype = b"".join(struct.pack("<I", len(text)) + text for text in texts), "BYTES"
    else:
        datatype = DATATYPES[array.dtype.newbyteorder("<")]
        data = np.ascontiguousarray(array, dtype=DTYPES[datatype]).tobytes()
    return data, {"name": name, "datatype": datatype, "shape": list(array.shape), "byteLength": len(data)}


def decode_replies(frame):
    """The answers of a frame by sequence number: a dict from output name to array, or an InferenceFailed."""
    magic, header_bytes, count = struct.unpack_from("<4sII", frame)
    if magic != b"MLR1":
        raise ValueError("not a frame")
    lengths = struct.unpack_from(f"<{count}I", frame, 12)
    at = 12 + 4 * count
    header = json.loads(frame[at : at + header_bytes])
    at += header_bytes
    answers, section = {}, 0
    for reply in header["replies"]:
        if "error" in reply:
            answers[reply["sequence"]] = InferenceFailed(reply["error"]["code"], reply["error"]["message"])
            continue
        outputs = {}
        for output in reply["outputs"]:
            data = frame[at : at + lengths[section]]
            at += lengths[section]
            section += 1
            outputs[output["name"]] = decode_tensor(output, data)
        answers[reply["sequence"]] = outputs
    return answers


def decode_tensor(header, data):
    """The array of a tensor; BYTES become an array of `object`, BF16 its bits as uint16."""
    if header["datatype"] != "BYTES":
        dtype = DTYPES.get(header["datatype"], "<u2")
        return np.frombuffer(data, dtype=dtype).reshape(header["shape"])
    texts, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        texts.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return np.array(texts, dtype=object).reshape(header["shape"])
