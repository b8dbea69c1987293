import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { OnnxModel } from '../../support/onnx/model.ts';
import { writeModel } from '../../support/onnx/model.ts';

const IO = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 2] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: ['rows', 2] }],
} as const;

/** Each row minus the mean of all rows: a row alone is 0, in company it is not. */
const centred: OnnxModel = {
  ...IO,
  nodes: [
    { op: 'ReduceMean', inputs: ['x'], outputs: ['m'], attributes: { axes: { ints: [0] }, keepdims: { int: 1 } } },
    { op: 'Sub', inputs: ['x', 'm'], outputs: ['y'] },
  ],
};

/** The first row, whatever the number of rows. */
const firstRow: OnnxModel = {
  ...IO,
  nodes: [{ op: 'Compress', inputs: ['x', 'which'], outputs: ['y'], attributes: { axis: { int: 0 } } }],
  initializers: [{ name: 'which', datatype: 'BOOL', shape: [1], data: new Uint8Array([1]) }],
};

/** Two models that look as if they could batch, and cannot. */
export function writeUnbatchable(repository: string): void {
  for (const [name, model] of [['centred', centred] as const, ['first_row', firstRow] as const]) {
    mkdirSync(join(repository, name), { recursive: true });
    writeFileSync(join(repository, name, 'config.pbtxt'), 'max_batch_size: 4 dynamic_batching { }');
    writeModel(join(repository, name, '1', 'model.onnx'), model);
  }
}
