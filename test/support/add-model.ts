import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { f32 } from './onnx/data.ts';
import { encodeModel, writeModel } from './onnx/model.ts';

/** The file of a model that adds a number to each element: x [-1,-1] -> y. */
export function addModelFile(amount: number): Buffer {
  return encodeModel(addGraph(amount));
}

/** Writes a version of such a model; a file that is there is replaced at once. */
export function writeAddVersion(modelDir: string, version: string, amount: number): void {
  const next = `${modelDir}.next`;
  writeModel(next, addGraph(amount));
  mkdirSync(join(modelDir, version), { recursive: true });
  renameSync(next, join(modelDir, version, 'model.onnx'));
}

/** Writes a model whose versions add their own number. */
export function writeAddModel(modelDir: string, versions: readonly number[], config = ''): void {
  mkdirSync(modelDir, { recursive: true });
  writeFileSync(join(modelDir, 'config.pbtxt'), `${ADD_CONFIG}\n${config}`);
  for (const version of versions) writeAddVersion(modelDir, String(version), version);
}

const ADD_CONFIG = `
backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { }`;

function addGraph(amount: number) {
  return {
    inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, -1] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: [-1, -1] }],
    initializers: [{ name: 'amount', datatype: 'FP32', shape: [1], data: f32(amount) }],
    nodes: [{ op: 'Add', inputs: ['x', 'amount'], outputs: ['y'] }],
  } as const;
}
