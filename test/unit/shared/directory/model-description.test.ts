import { expect, it } from 'vitest';
import { decodeDescription, encodeDescription } from '../../../../shared/directory/model-description.ts';
import { createReadyModel, labelsKey } from '../../../../shared/model/create-ready-model.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import type { ModelFiles } from '../../../../shared/model/ready-model.ts';

const FILES: ModelFiles = { names: [], read: () => Promise.reject(new Error('there is none')) };

it('tells the labels of each output, also those that an ensemble has from its steps and from no file', () => {
  const config = parseModelConfig(
    `name: "ens"
     output [ { name: "own" data_type: TYPE_FP32 dims: 2 label_filename: "l.txt" },
              { name: "step" data_type: TYPE_FP32 dims: 2 }, { name: "none" data_type: TYPE_FP32 dims: 2 } ]`,
    'config.pbtxt',
  );
  const labels = new Map([
    ['l.txt', ['a', 'b']],
    [labelsKey(config.output[1]!), ['cat', 'dog']],
  ]);
  const model = createReadyModel({ config, version: '1', versions: ['1'], labels, files: FILES });
  expect(model.outputs.map((output) => output.labels)).toEqual([['a', 'b'], ['cat', 'dog'], []]);
  const described = decodeDescription(encodeDescription(model, []));
  const restored = createReadyModel({ ...described, versions: ['1'], files: FILES });
  expect(restored.outputs).toEqual(model.outputs);
});
