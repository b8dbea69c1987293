import { f32, i64 } from '../../support/onnx/data.ts';
import type { OnnxGraph, OnnxModel, OnnxNode } from '../../support/onnx/model.ts';

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

/** Outputs that no node makes: the input itself, a constant, and the input by way of a node that ORT leaves out. */
export const handedThrough: OnnxModel = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: ['n'] }],
  outputs: [
    { name: 'x', datatype: 'FP32', shape: ['n'] },
    { name: 'c', datatype: 'FP32', shape: [2] },
    { name: 'k', datatype: 'FP32', shape: [2] },
    { name: 'y', datatype: 'FP32', shape: ['n'] },
    { name: 'z', datatype: 'FP32', shape: ['n'] },
  ],
  nodes: [
    { op: 'Add', inputs: ['c', 'c'], outputs: ['k'] },
    { op: 'Identity', inputs: ['x'], outputs: ['i'] },
    { op: 'Identity', inputs: ['i'], outputs: ['y'] },
    { op: 'Reshape', inputs: ['x', 'shape'], outputs: ['z'] },
  ],
  initializers: [
    { name: 'c', datatype: 'FP32', shape: [2], data: f32(7, 8) },
    { name: 'shape', datatype: 'INT64', shape: [1], data: i64(-1) },
  ],
};

/** One of two branches that give x as often as the file says, or twice as often. */
export const branches: OnnxModel = {
  inputs: [
    { name: 'x', datatype: 'FP32', shape: ['n'] },
    { name: 'twice', datatype: 'BOOL', shape: [] },
  ],
  outputs: [{ name: 'y', datatype: 'FP32', shape: ['n'] }],
  nodes: [
    {
      op: 'If',
      inputs: ['twice'],
      outputs: ['y'],
      attributes: {
        then_branch: {
          graph: branch({ op: 'Concat', inputs: ['x', 'x'], outputs: ['y2'], attributes: { axis: { int: 0 } } }),
        },
        else_branch: { graph: branch({ op: 'Identity', inputs: ['x'], outputs: ['y2'] }) },
      },
    },
  ],
};

function branch(node: OnnxNode): OnnxGraph {
  return { inputs: [], outputs: [{ name: 'y2', datatype: 'FP32', shape: ['m'] }], nodes: [node] };
}

/** The sum of two inputs that the file says are of one length. */
export const sum: OnnxModel = {
  inputs: [
    { name: 'a', datatype: 'FP32', shape: ['n', 'length'] },
    { name: 'b', datatype: 'FP32', shape: ['n', 'length'] },
  ],
  outputs: [{ name: 'y', datatype: 'FP32', shape: ['n', 'length'] }],
  nodes: [{ op: 'Add', inputs: ['a', 'b'], outputs: ['y'] }],
};

/** The same word for two dimensions that have nothing to do with each other. */
export const careless: OnnxModel = {
  inputs: [
    { name: 'a', datatype: 'FP32', shape: ['length'] },
    { name: 'b', datatype: 'FP32', shape: ['length'] },
  ],
  outputs: [{ name: 'y', datatype: 'FP32', shape: ['m'] }],
  nodes: [{ op: 'Concat', inputs: ['a', 'b'], outputs: ['y'], attributes: { axis: { int: 0 } } }],
};

/** As many zeros as the input says. */
export const zeros: OnnxModel = {
  inputs: [{ name: 'x', datatype: 'INT64', shape: [1] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: [-1] }],
  nodes: [{ op: 'ConstantOfShape', inputs: ['x'], outputs: ['y'] }],
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
