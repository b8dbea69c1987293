import { expect, test } from 'vitest';
import { assertRequestFits } from '../../../../shared/infer/validate-request.ts';
import { type InferRequest, NO_PARAMETERS } from '../../../../shared/infer/request.ts';
import type { Tensor } from '../../../../shared/tensor/tensor.ts';
import { fakeModel, fakeSpec } from '../../../support/fake-dispatcher.ts';

function requestOf(inputs: Tensor[], outputs: string[] = []): InferRequest {
  return { id: '', model: 'm', version: '', inputs, outputs, parameters: NO_PARAMETERS };
}

const IMAGE = fakeModel('image', { inputs: [fakeSpec('x', 'FP32', [-1, 3, 2, 2])] });
const PIXELS = { layout: 'NCHW', rescale: 1 / 255, mean: [0, 0, 0], std: [1, 1, 1] } as const;

test('counts the data of a tensor of pixels in elements, not in floats', () => {
  const pixels = (byteLength: number): Tensor => ({
    name: 'x',
    datatype: 'FP32',
    shape: [1, 3, 2, 2],
    data: new Uint8Array(byteLength),
    pixels: PIXELS,
  });
  expect(() => assertRequestFits(IMAGE, requestOf([pixels(12)]))).not.toThrow();
  expect(() => assertRequestFits(IMAGE, requestOf([pixels(48)]))).toThrow('expected 12 bytes, got 48');
});

test('takes pixels for FP32 inputs only', () => {
  const model = fakeModel('m', { inputs: [fakeSpec('x', 'UINT8', [-1, 2])] });
  const pixels: Tensor = { name: 'x', datatype: 'UINT8', shape: [1, 2], data: new Uint8Array(2), pixels: PIXELS };
  expect(() => assertRequestFits(model, requestOf([pixels]))).toThrow('pixels stand for FP32 values');
});

test('says why fewer rows are taken than the config says', () => {
  const x: Tensor = { name: 'x', datatype: 'FP32', shape: [2, 1], data: new Uint8Array(8) };
  const contract = { ...fakeModel('m'), maxBatchSize: 1, batchNote: 'the model cannot batch: so' };
  expect(() => assertRequestFits(contract, requestOf([x]))).toThrow(
    'batch-size must be <= 1, got 2 (the model cannot batch: so)',
  );
});

test('checks sizes of tensors that no HTTP codec has seen', () => {
  const model = fakeModel('m', { inputs: [fakeSpec('x', 'BYTES', [-1])], maxBatchSize: 0 });
  const lie = { name: 'x', datatype: 'BYTES' as const, shape: [2], data: Uint8Array.of(200, 0, 0, 0) };
  expect(() => assertRequestFits(model, requestOf([lie]))).toThrow('model m, input x: element 0 at byte 0');
  const negative = { ...lie, shape: [-1] };
  expect(() => assertRequestFits(model, requestOf([negative]))).toThrow('from 0 up');
});

test('names a repeated output', () => {
  const x: Tensor = { name: 'x', datatype: 'FP32', shape: [1, 1], data: new Uint8Array(4) };
  expect(() => assertRequestFits(fakeModel('m'), requestOf([x], ['y', 'y']))).toThrow('output y is listed twice');
});

test('keeps hostile names short in its messages', () => {
  const name = 'n'.repeat(1_000_000);
  const x: Tensor = { name, datatype: 'FP32', shape: [1, 1], data: new Uint8Array(4) };
  try {
    assertRequestFits(fakeModel('m'), requestOf([x]));
    expect.unreachable();
  } catch (error) {
    expect(String(error).length).toBeLessThan(300);
  }
});
