import { equals } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { normaliseModelConfig } from '../../../../shared/model/normalise-config.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { ModelConfigSchema, ModelInstanceGroup_Kind } from '../../../../shared/proto/generated/model_config_pb.ts';

function normalise(text: string) {
  return normaliseModelConfig(parseModelConfig(text, 'config.pbtxt'));
}

describe('normaliseModelConfig', () => {
  it('writes down the defaults of an empty config', () => {
    const config = normalise('name: "m"');
    expect(config.versionPolicy?.policyChoice).toMatchObject({ case: 'latest', value: { numVersions: 1 } });
    expect(config.optimization).toMatchObject({
      inputPinnedMemory: { enable: true },
      outputPinnedMemory: { enable: true },
    });
    expect(config.instanceGroup).toMatchObject([{ name: 'm', kind: ModelInstanceGroup_Kind.CPU, count: 2 }]);
  });

  it.each([
    ['', 2],
    ['instance_group { }', 2],
    ['instance_group { kind: KIND_CPU }', 2],
    ['instance_group { kind: KIND_CPU count: 0 }', 2],
    ['instance_group { count: 1 }', 1],
    ['instance_group { kind: KIND_CPU count: 3 } instance_group { count: 4 }', 7],
  ])('counts instances of %j', (text, count) => {
    const counts = normalise(text).instanceGroup.map((group) => group.count);
    expect(counts.reduce((sum, one) => sum + one, 0)).toBe(count);
  });

  it('names groups by their place', () => {
    const names = normalise('name: "m" instance_group [ { }, { name: "own" }, { } ]').instanceGroup.map((g) => g.name);
    expect(names).toEqual(['m_0', 'own', 'm_2']);
  });

  it('leaves other kinds as they are', () => {
    expect(normalise('instance_group { kind: KIND_GPU }').instanceGroup).toMatchObject([
      { kind: ModelInstanceGroup_Kind.GPU, count: 1 },
    ]);
  });

  it.each([
    ['max_batch_size: 8 dynamic_batching { }', [8]],
    ['max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 2, 4 ] }', [2, 4]],
    ['dynamic_batching { }', []],
  ])('prefers whole batches where nothing else is preferred: %j', (text, sizes) => {
    expect(normalise(text).schedulingChoice.value).toMatchObject({ preferredBatchSize: sizes });
  });

  it('gives sequences their idle time', () => {
    const config = normalise('max_batch_size: 2 sequence_batching { oldest { } }');
    expect(config.schedulingChoice.value).toMatchObject({
      maxSequenceIdleMicroseconds: 1_000_000n,
      strategyChoice: { case: 'oldest', value: { preferredBatchSize: [2] } },
    });
  });

  it('adds neither instances nor pinned memory to an ensemble', () => {
    const config = normalise('ensemble_scheduling { }');
    expect(config.instanceGroup).toEqual([]);
    expect(config.optimization).toBeUndefined();
  });

  it('keeps what is set, and changes nothing the second time', () => {
    const config = normalise(
      'name: "m" version_policy { all { } } optimization { input_pinned_memory { enable: false } graph { level: 1 } }',
    );
    expect(config.versionPolicy?.policyChoice.case).toBe('all');
    expect(config.optimization).toMatchObject({ inputPinnedMemory: { enable: false }, graph: { level: 1 } });
    expect(equals(ModelConfigSchema, normaliseModelConfig(config), config)).toBe(true);
  });
});
