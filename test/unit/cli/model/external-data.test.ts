import { describe, expect, it } from 'vitest';
import { externalDataOf } from '../../../../cli/commands/model/external-data.ts';
import { encodeModel, type OnnxInitializer } from '../../../support/onnx/model.ts';

const IO = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: [-1] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: [-1] }],
} as const;
const external = (name: string, location: string): OnnxInitializer => ({
  name,
  datatype: 'FP32',
  shape: [1],
  external: location,
});

describe('externalDataOf', () => {
  it('finds the files that hold weights, each once', () => {
    const model = encodeModel({
      ...IO,
      nodes: [{ op: 'Add', inputs: ['x', 'a'], outputs: ['y'] }],
      initializers: [
        external('a', 'model.onnx_data'),
        external('b', 'model.onnx_data'),
        external('c', 'more/w.bin'),
        { name: 'd', datatype: 'FP32', shape: [1], data: new Uint8Array(4) },
      ],
    });
    expect(externalDataOf(model)).toEqual(['model.onnx_data', 'more/w.bin']);
  });

  it('looks into constants and into graphs inside of nodes', () => {
    const model = encodeModel({
      ...IO,
      nodes: [
        {
          op: 'Constant',
          inputs: [],
          outputs: ['c'],
          attributes: { value: { tensor: external('c', 'constant.bin') } },
        },
        {
          op: 'If',
          inputs: ['x'],
          outputs: ['y'],
          attributes: { then_branch: { graph: { ...IO, nodes: [], initializers: [external('w', 'branch.bin')] } } },
        },
      ],
    });
    expect(externalDataOf(model)).toEqual(['constant.bin', 'branch.bin']);
  });

  it('finds none where the weights are in the file itself', () => {
    expect(externalDataOf(encodeModel({ ...IO, nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }] }))).toEqual(
      [],
    );
  });

  it('refuses bytes that are no ONNX file', () => {
    expect(() => externalDataOf(Buffer.from('<!doctype html><html></html>'))).toThrow('no ONNX model');
  });
});
