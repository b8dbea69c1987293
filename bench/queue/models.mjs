// `identity` gives back its input, up to 32 rows a run; `minilm` of the examples keeps a processor busy.
import { appendFileSync, cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MODEL, writeIdentityModel } from '../wire/identity-model.mjs';

const ONE_THREAD = `instance_group { count: 1 kind: KIND_CPU }
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
`;

/** Keeps a processor busy. */
export const HEAVY_MODEL = 'minilm';

export function writeQueueModels(repository, examples) {
  cpSync(join(examples, HEAVY_MODEL), join(repository, HEAVY_MODEL), { recursive: true });
  appendFileSync(join(repository, HEAVY_MODEL, 'config.pbtxt'), ONE_THREAD);
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
