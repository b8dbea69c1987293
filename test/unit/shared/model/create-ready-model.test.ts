import { describe, expect, it } from 'vitest';
import { createReadyModel, labelFilenames, parseLabels } from '../../../../shared/model/create-ready-model.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import type { ModelFiles } from '../../../../shared/model/ready-model.ts';

const FILES: ModelFiles = { names: [], read: () => Promise.reject(new Error('no files')) };

const TENSORS = `
  input { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] optional: true }
  input { name: "s" data_type: TYPE_STRING dims: 1 reshape { } }
  output { name: "y" data_type: TYPE_INT64 dims: [ 6 ] reshape { shape: [ 2, 3 ] } label_filename: "l.txt" }
  output { name: "z" data_type: TYPE_BF16 dims: [ 2 ] label_filename: "l.txt" }`;

function ready(text: string) {
  const config = parseModelConfig(`name: "m" ${text} ${TENSORS}`, 'config.pbtxt');
  const labels = new Map([['l.txt', ['cat', 'dog']]]);
  return createReadyModel({ config, version: '2', versions: ['1', '2'], labels, files: FILES });
}

describe('createReadyModel', () => {
  it('puts the batch dimension in front of every shape', () => {
    const model = ready('platform: "onnxruntime_onnx" backend: "onnxruntime" max_batch_size: 8');
    expect(model).toMatchObject({
      name: 'm',
      version: '2',
      versions: ['1', '2'],
      platform: 'onnxruntime_onnx',
      maxBatchSize: 8,
    });
    expect(model.inputs).toEqual([
      { name: 'x', datatype: 'FP32', shape: [-1, 3, -1], modelShape: [-1, 3, -1], optional: true, labels: [] },
      { name: 's', datatype: 'BYTES', shape: [-1, 1], modelShape: [-1], optional: false, labels: [] },
    ]);
    expect(model.outputs).toEqual([
      { name: 'y', datatype: 'INT64', shape: [-1, 6], modelShape: [-1, 2, 3], optional: false, labels: ['cat', 'dog'] },
      { name: 'z', datatype: 'BF16', shape: [-1, 2], modelShape: [-1, 2], optional: false, labels: ['cat', 'dog'] },
    ]);
  });

  it('has no batch dimension without max_batch_size', () => {
    const model = ready('backend: "python"');
    expect(model.platform).toBe('python');
    expect(model.inputs.map((input) => input.shape)).toEqual([[3, -1], [1]]);
    expect(model.inputs.map((input) => input.modelShape)).toEqual([[3, -1], []]);
  });
});

describe('labels', () => {
  it('lists each label file once', () => {
    expect(labelFilenames(parseModelConfig(TENSORS, 'config.pbtxt'))).toEqual(['l.txt']);
  });

  it.each([
    ['a\nb\n', ['a', 'b']],
    ['a\r\nb', ['a', 'b']],
    ['\uFEFFa\n\nc\n', ['a', '', 'c']],
    ['', []],
  ])('reads %j, one label a line', (text, labels) => {
    expect(parseLabels(text)).toEqual(labels);
  });
});
