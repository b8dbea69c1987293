import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { writeSumModel } from '../../fixtures/sequence-models.ts';
import { until } from '../../support/redis.ts';
import { sum, useSequencePool } from './sequence-pool.ts';

describe('a broken model that is loaded on demand in a pool', () => {
  const { folder, worker, producer } = useSequencePool();

  it('is not tried again for each request, each is told why, and a repaired one serves', async () => {
    writeSumModel(join(folder(), 'sum'));
    writeFileSync(join(folder(), 'sum', '1', 'model.onnx'), 'garbage');
    const { log } = await worker({ onDemand: true, loadAtStart: [] });
    const one = await producer(0);
    await until('it can be asked for', () => one.catalog.list().length === 1);
    const ask = async () => {
      await one.wake('sum');
      return sum(one, 1, 1, { sequence_start: true, sequence_end: true });
    };
    for (let i = 0; i < 10; i += 1) {
      await expect(ask()).rejects.toMatchObject({
        code: 'UNAVAILABLE',
        message: expect.stringContaining('the model file could not be loaded') as string,
      });
    }
    expect(log.filter(({ event }) => event === 'model failed to load').length).toBeLessThan(4);
    writeSumModel(join(folder(), 'sum'));
    await until('it serves', async () => (await ask().catch(() => 0)) === 1, 20_000);
  });
});
