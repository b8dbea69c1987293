"""Requests and answers as they lie in Redis; docs/wire.md describes each part. Needs numpy."""

import json
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


def encode_bundle(producer, bundle, model, requests, deadline_ms):
    """A bundle of requests, each a dict from input name to array. `deadline_ms` is on the clock of Redis."""
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
    return Bundle(f"{producer}-{bundle}", {f"{PREFIX}.tensor:{producer}:{bundle}": b"".join(parts)}, data)


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
