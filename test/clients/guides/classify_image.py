"""The second guide's client: random pixels in, 1000 probabilities out, over gRPC; then the same top five from the server.

classify_image.py HOST:PORT: prints the mean of each channel, the shape, the five best classes, and the server's own five.
"""

import json
import sys

import numpy
import tritonclient.grpc as triton

client = triton.InferenceServerClient(url=sys.argv[1])
pixels = numpy.random.default_rng(5).standard_normal((1, 3, 224, 224)).astype(numpy.float32)
pixels += numpy.array([0.5, -1, 2], numpy.float32).reshape(1, 3, 1, 1)
tensor = triton.InferInput("data_0", pixels.shape, "FP32")
tensor.set_data_from_numpy(pixels)

scores = client.infer(model_name="densenet_onnx", inputs=[tensor]).as_numpy("prob_1")
best = numpy.argsort(scores[0])[-5:][::-1]

wanted = triton.InferRequestedOutput("prob_1", class_count=5)
classes = client.infer(model_name="densenet_onnx", inputs=[tensor], outputs=[wanted]).as_numpy("prob_1")

print(
    json.dumps(
        {
            "means": pixels.astype(numpy.float64).mean((0, 2, 3)).tolist(),
            "shape": scores.shape,
            "best": best.tolist(),
            "scores": scores[0, best].tolist(),
            "classes": [entry.decode() for entry in classes[0]],
        }
    )
)
