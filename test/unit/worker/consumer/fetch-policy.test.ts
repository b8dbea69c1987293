import { describe, expect, it } from 'vitest';
import { createReadyModel } from '../../../../shared/model/create-ready-model.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import {
  fetchConcurrency,
  fetchLimitsOf,
  fetchPolicyOf,
  rowsToHold,
} from '../../../../worker/consumer/fetch-policy.ts';

const limits = { targetRows: 128, maxBytes: 1000, maxBundles: 64 };

describe('how many bundles a worker fetches', () => {
  it('is few when bundles are full and many when they hold one request', () => {
    const empty = { bundles: 0, rows: 0, bytes: 0 };
    expect(fetchConcurrency(empty, 32, limits)).toBe(4);
    expect(fetchConcurrency(empty, 1, limits)).toBe(64);
  });

  it('is what it has when enough rows or bytes are in hand', () => {
    expect(fetchConcurrency({ bundles: 4, rows: 128, bytes: 0 }, 32, limits)).toBe(4);
    expect(fetchConcurrency({ bundles: 2, rows: 2, bytes: 1000 }, 1, limits)).toBe(2);
  });

  it('is at least one more while there is room', () => {
    expect(fetchConcurrency({ bundles: 3, rows: 127, bytes: 0 }, 1000, limits)).toBe(4);
  });

  it('is never below one', () => {
    expect(fetchConcurrency({ bundles: 0, rows: 0, bytes: 0 }, 0, { ...limits, targetRows: 0, maxBytes: 0 })).toBe(1);
  });
});

describe('how many rows a worker holds where they run in order', () => {
  it('is what any model gets before anything has run, and where runs are short', () => {
    expect(rowsToHold({ runMs: undefined, runRows: 0 }, 1, 128)).toBe(128);
    expect(rowsToHold({ runMs: 3, runRows: 16 }, 1, 128)).toBe(128);
  });

  it('is four runs of each slot where runs are long', () => {
    expect(rowsToHold({ runMs: 50, runRows: 1 }, 1, 128)).toBe(4);
    expect(rowsToHold({ runMs: 450, runRows: 8 }, 2, 128)).toBe(64);
    expect(rowsToHold({ runMs: 450, runRows: 32 }, 1, 128)).toBe(128);
  });

  it('is what is answered in a tenth of a second between them', () => {
    expect(rowsToHold({ runMs: 10, runRows: 1 }, 1, 128)).toBe(10);
    expect(rowsToHold({ runMs: 10, runRows: 1.5 }, 3, 128)).toBe(45);
  });
});

describe('how much a worker holds of a model', () => {
  const model = (text: string) => {
    const config = parseModelConfig(`name: "m" ${text}`, 'config.pbtxt');
    const files = { names: [], read: () => Promise.reject(new Error('none')) };
    return createReadyModel({ config, version: '1', versions: ['1'], labels: new Map(), files });
  };
  const limitsOf = (text: string) => fetchLimitsOf(model(text), 128, 1000);

  it('is what any model gets, or four batches, without a queue policy', () => {
    expect(limitsOf('')).toEqual({ targetRows: 128, maxBytes: 1000, maxBundles: 64 });
    expect(limitsOf('max_batch_size: 64 dynamic_batching { }')).toMatchObject({ targetRows: 256, maxBundles: 64 });
    expect(fetchPolicyOf(model('dynamic_batching { max_queue_delay_microseconds: 5 }'))).toBeUndefined();
  });

  it('is more with priorities, so that there is something to choose from', () => {
    const text = 'max_batch_size: 4 dynamic_batching { priority_levels: 2 default_priority_level: 1 }';
    expect(limitsOf(text)).toMatchObject({ targetRows: 512, maxBundles: 512 });
    expect(fetchPolicyOf(model(text))).toMatchObject({ levels: 2 });
  });

  it('is enough for the queues of all levels to be full, within a bound', () => {
    const policy = 'default_queue_policy { max_queue_size: 100 } priority_levels: 3 default_priority_level: 1';
    expect(limitsOf(`max_batch_size: 4 dynamic_batching { ${policy} }`)).toMatchObject({ targetRows: 2400 });
    const own = 'priority_queue_policy { key: 1 value { max_queue_size: 50 } }';
    expect(limitsOf(`max_batch_size: 4 dynamic_batching { ${policy} ${own} }`)).toMatchObject({ targetRows: 2000 });
    const huge = 'default_queue_policy { max_queue_size: 4000000000 }';
    expect(limitsOf(`dynamic_batching { ${huge} }`)).toMatchObject({ targetRows: 4096, maxBundles: 4096 });
  });
});
