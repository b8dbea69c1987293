// `identity` gives back its input, up to 32 rows a run; `minilm` of the examples keeps a processor busy.
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MODEL, writeIdentityModel } from '../wire/identity-model.mjs';

/** Keeps a processor busy. */
export const HEAVY_MODEL = 'minilm';

export function writeQueueModels(repository, examples) {
  cpSync(join(examples, HEAVY_MODEL), join(repository, HEAVY_MODEL), { recursive: true });
  writeIdentityModel(repository);
  const config = `name: "${MODEL}"
platform: "onnxruntime_onnx"
max_batch_size: 32
input { name: "INPUT" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: -1 }
dynamic_batching { }
`;
  writeFileSync(join(repository, MODEL, 'config.pbtxt'), config);
}
