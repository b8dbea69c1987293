import { join } from 'node:path';
import { makeFixtureModel } from '../fixtures/make-models.ts';

/** The model `slow` (50 ms or so for each unit of its input), four rows a batch, one batch at a time. */
export function makeOneInstanceSlow(repository: string): void {
  makeFixtureModel(
    join(repository, 'slow'),
    'slow',
    `platform: "onnxruntime_onnx"
max_batch_size: 4
input { name: "x" data_type: TYPE_INT64 dims: 1 }
output { name: "y" data_type: TYPE_INT64 dims: 1 }
dynamic_batching { }
instance_group { kind: KIND_CPU count: 1 }
`,
  );
}
