"""The third guide's client: 512 token ids in, the logits of two labels out, over gRPC.

classify_text.py HOST:PORT ID ...: fills the ids up to 512 with zeros, and prints the logits.
"""

import json
import sys

import numpy
import tritonclient.grpc as triton

ids = [int(text) for text in sys.argv[2:]]
row = numpy.array([ids + [0] * (512 - len(ids))], numpy.int64)

client = triton.InferenceServerClient(url=sys.argv[1])
inputs = [triton.InferInput("input_ids", [1, 512], "INT64")]
inputs[0].set_data_from_numpy(row)
outputs = [triton.InferRequestedOutput("logits")]
answer = client.infer("text_classifier", inputs, outputs=outputs)
print(json.dumps({"shape": answer.as_numpy("logits").shape, "logits": answer.as_numpy("logits")[0].tolist()}))
