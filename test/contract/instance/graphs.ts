import { i64 } from '../../support/onnx/data.ts';
import type { OnnxModel } from '../../support/onnx/model.ts';

/** The places of the elements that are not 0. The file says that there are as many as elements, which is mostly wrong. */
export const positions: OnnxModel = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: ['n'] }],
  outputs: [{ name: 'y', datatype: 'INT64', shape: [1, 'n'] }],
  nodes: [{ op: 'NonZero', inputs: ['x'], outputs: ['y'] }],
};

/** Reshapes to [1,4], whatever comes in. */
export const reshape: OnnxModel = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 4] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 4] }],
  nodes: [{ op: 'Reshape', inputs: ['x', 'shape'], outputs: ['y'] }],
  initializers: [{ name: 'shape', datatype: 'INT64', shape: [2], data: i64(1, 4) }],
};

/** The input as it is, and as a sequence. */
export const sequence: OnnxModel = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: ['n'] }],
  outputs: [
    { name: 'y', datatype: 'FP32', shape: ['n'] },
    { name: 's', datatype: 'FP32', shape: ['n'], sequence: true },
  ],
  nodes: [
    { op: 'Identity', inputs: ['x'], outputs: ['y'] },
    { op: 'SequenceConstruct', inputs: ['x'], outputs: ['s'] },
  ],
};

/** Adds two numbers that lie in a file of their own. */
export function withExternalData(location: string): OnnxModel {
  return {
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['n', 2] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['n', 2] }],
    nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
    initializers: [{ name: 'w', datatype: 'FP32', shape: [2], external: location }],
  };
}
