import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { parseModelConfig } from '../../../../../shared/model/parse-config.ts';
import { ModelDynamicBatchingSchema } from '../../../../../shared/proto/generated/model_config_pb.ts';
import {
  levelOf,
  policyOfLevel,
  queuePolicyOf,
  queueTimeoutMs,
} from '../../../../../worker/engine/schedule/queue-policy.ts';

function policyFrom(fields: string) {
  const { schedulingChoice } = parseModelConfig(`dynamic_batching { ${fields} }`, 'config.pbtxt');
  return queuePolicyOf(
    schedulingChoice.case === 'dynamicBatching' ? schedulingChoice.value : create(ModelDynamicBatchingSchema),
  );
}

describe('queuePolicyOf', () => {
  it.each([
    '',
    'preferred_batch_size: 4 max_queue_delay_microseconds: 100',
    'default_queue_policy { }',
    'default_queue_policy { timeout_action: DELAY allow_timeout_override: true }',
    'priority_levels: 1 default_priority_level: 1',
    'priority_levels: 1 default_priority_level: 1 default_queue_policy { max_queue_size: 3 } priority_queue_policy { key: 1 value { } }',
    'preserve_ordering: true',
  ])('is nothing where requests run in the order of arrival: %j', (fields) => {
    expect(policyFrom(fields)).toBeUndefined();
  });

  it('reads sizes and times, 0 standing for none', () => {
    const policy = policyFrom(
      'default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 2500 allow_timeout_override: true } ' +
        'priority_levels: 3 default_priority_level: 2 priority_queue_policy { key: 3 value { max_queue_size: 7 } }',
    )!;
    expect(policy).toMatchObject({ levels: 3, defaultLevel: 2, reorders: true });
    const general = { maxQueueSize: Infinity, timeoutMs: 2.5, allowsOverride: true, delays: true };
    expect([1, 2, 3].map((level) => policyOfLevel(policy, level))).toEqual([
      general,
      general,
      { maxQueueSize: 7, timeoutMs: Infinity, allowsOverride: false, delays: false },
    ]);
  });

  it('knows whether a request can be overtaken', () => {
    expect(policyFrom('default_queue_policy { max_queue_size: 3 }')).toMatchObject({ levels: 1, reorders: false });
    expect(policyFrom('default_queue_policy { default_timeout_microseconds: 3 }')?.reorders).toBe(false);
    expect(policyFrom('default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 3 }')?.reorders).toBe(
      true,
    );
  });
});

describe('levelOf', () => {
  it('takes the level that a request names, and the default one for 0 and what is above', () => {
    const policy = policyFrom('priority_levels: 3 default_priority_level: 2')!;
    expect([0, 1, 2, 3, 4, 2 ** 60].map((priority) => levelOf(policy, priority))).toEqual([2, 1, 2, 3, 2, 2]);
  });
});

describe('queueTimeoutMs', () => {
  const level = { maxQueueSize: Infinity, timeoutMs: 100, allowsOverride: true, delays: false };

  it.each([
    [undefined, 100],
    [0, 100],
    [0n, 100],
    [50_000, 50],
    [1, 0.001],
    [50_000n, 50],
    [100_000, 100],
    [200_000, 100],
    [2n ** 64n - 1n, 100],
    [-5, 100],
    ['50000', 100],
    [true, 100],
    [NaN, 100],
  ])('of %s µs is %d ms where the default is 100', (given, expected) => {
    expect(queueTimeoutMs(level, given)).toBe(expected);
  });

  it('is the default one where requests may not ask', () => {
    expect(queueTimeoutMs({ ...level, allowsOverride: false }, 50_000)).toBe(100);
  });

  it('is none without a default, because a request can only shorten', () => {
    expect(queueTimeoutMs({ ...level, timeoutMs: Infinity }, 50_000)).toBe(Infinity);
  });
});
