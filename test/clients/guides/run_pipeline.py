"""The third guide's ensemble: texts in, one label for each out, over gRPC.

run_pipeline.py HOST:PORT TEXT ...: prints the labels.
"""

import json
import sys

import numpy
import tritonclient.grpc as triton

texts = numpy.array([[text.encode()] for text in sys.argv[2:]], numpy.object_)

client = triton.InferenceServerClient(url=sys.argv[1])
inputs = [triton.InferInput("INPUT_TEXT", list(texts.shape), "BYTES")]
inputs[0].set_data_from_numpy(texts)
answer = client.infer("rag_pipeline", inputs, outputs=[triton.InferRequestedOutput("OUTPUT_LABEL")])
print(json.dumps([row[0].decode() for row in answer.as_numpy("OUTPUT_LABEL")]))
