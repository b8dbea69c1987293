"""A web server's own client of the first guide: one photo in, a vector of 512 numbers out, over gRPC.

embed_image.py HOST:PORT [R,G,B ...]: prints the vectors of images of one colour each, all asked for at once.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy
import tritonclient.grpc as triton

MEAN = numpy.array([0.481, 0.457, 0.408])
DEVIATION = numpy.array([0.268, 0.261, 0.275])


class Embedder:
    def __init__(self, url):
        self.client = triton.InferenceServerClient(url=url)

    def embed(self, image):
        """A vector for an image of height, width and three colours from 0 to 255."""
        pixels = ((image / 255 - MEAN) / DEVIATION).transpose(2, 0, 1)[None].astype(numpy.float32)
        tensor = triton.InferInput("pixel_values", pixels.shape, "FP32")
        tensor.set_data_from_numpy(pixels)
        wanted = triton.InferRequestedOutput("image_embeds")
        answer = self.client.infer(model_name="clip_image_encoder", inputs=[tensor], outputs=[wanted])
        return answer.as_numpy("image_embeds").tolist()[0]


def main(url, *colours):
    embedder = Embedder(url)
    images = [numpy.full((224, 224, 3), [int(part) for part in colour.split(",")]) for colour in colours]
    with ThreadPoolExecutor(len(images)) as customers:
        print(json.dumps(list(customers.map(embedder.embed, images))))


main(*sys.argv[1:])
