import { describe, expect, it } from 'vitest';
import { createReadyModel } from '../../../../../shared/model/create-ready-model.ts';
import { normaliseModelConfig } from '../../../../../shared/model/normalise-config.ts';
import { parseModelConfig } from '../../../../../shared/model/parse-config.ts';
import { modelMetadata, modelMetadataWithDevices } from '../../../../../producer/facade/triton/metadata.ts';

const FILES = { names: [], read: () => Promise.reject(new Error('there is none')) };

function modelOf(text: string, gpus: readonly number[]) {
  const parsed = parseModelConfig(`name: "m" ${text}`, 'config.pbtxt');
  const config = normaliseModelConfig(parsed, { gpus, installed: true, reason: '' });
  return createReadyModel({ config, version: '1', versions: ['1'], labels: new Map(), files: FILES });
}

describe('the metadata of a model', () => {
  it.each([
    ['', [0], 'gpu:0'],
    ['instance_group { kind: KIND_AUTO }', [0, 1], 'gpu:0,gpu:1'],
    ['instance_group [ { kind: KIND_GPU gpus: [ 1 ] }, { kind: KIND_CPU } ]', [0, 1], 'gpu:1,cpu'],
  ])('says for %j with the GPUs %j that it runs on %s', (text, gpus, devices) => {
    expect(modelMetadataWithDevices(modelOf(text, gpus), undefined)).toMatchObject({ parameters: { devices } });
  });

  it('is what it was on the CPU', () => {
    const model = modelOf('', []);
    expect(modelMetadataWithDevices(model, '1')).toEqual(modelMetadata(model, '1'));
  });
});
