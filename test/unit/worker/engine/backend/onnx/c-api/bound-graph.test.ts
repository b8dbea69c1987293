import { describe, expect, test } from 'vitest';
import type { GraphTensor } from '../../../../../../../shared/model/graph-tensor.ts';
import type { Datatype } from '../../../../../../../shared/tensor/datatype.ts';
import { bindGraph } from '../../../../../../../worker/engine/backend/onnx/c-api/bound-graph.ts';

describe('bindGraph', () => {
  test('knows the shape of an output by the names of dimensions', () => {
    expect(dimsOf([tensor('x', ['batch', 3])], tensor('y', ['batch', 10]))).toEqual([{ input: 0, axis: 0 }, 10]);
    expect(dimsOf([tensor('a', [1]), tensor('x', [2, 'time'])], tensor('y', ['time']))).toEqual([
      { input: 1, axis: 1 },
    ]);
  });

  test.each([
    ['a dimension without a name', tensor('y', [-1, 10])],
    ['a name that no input has', tensor('y', ['boxes', 4])],
    ['texts', tensor('y', ['batch'], 'BYTES')],
    ['no dimensions, which may mean that none are declared', tensor('y', [])],
    ['a type without a name', tensor('y', ['batch'], undefined)],
    ['an input that is an output', tensor('x', ['batch', 3])],
  ])('does not guess for %s', (_, output) => {
    expect(dimsOf([tensor('x', ['batch', 3])], output)).toBeUndefined();
  });

  test('tells inputs with a default from the others', () => {
    const { inputs, requiredInputs } = bindGraph({
      inputs: [tensor('a', ['n'])],
      optionalInputs: [tensor('b', ['n'])],
      outputs: [],
    });
    expect(requiredInputs).toBe(1);
    expect([...inputs.values()].map((input) => [input.tensor.name, input.index, input.required])).toEqual([
      ['a', 0, true],
      ['b', 1, false],
    ]);
  });
});

function dimsOf(inputs: GraphTensor[], output: GraphTensor): unknown {
  return bindGraph({ inputs, optionalInputs: [], outputs: [output] }).outputs.get(output.name)!.dims;
}

function tensor(name: string, dims: (number | string)[], ...type: [Datatype | undefined] | []): GraphTensor {
  return {
    name,
    datatype: type.length === 0 ? 'FP32' : type[0],
    typeName: '',
    shape: dims.map((dim) => (typeof dim === 'number' ? dim : -1)),
    symbols: dims.map((dim) => (typeof dim === 'string' ? dim : '')),
  };
}
