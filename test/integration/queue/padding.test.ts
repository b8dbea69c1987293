import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NO_PARAMETERS } from '../../../shared/infer/request.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { createConsumer } from '../../../worker/consumer/create-consumer.ts';
import { callOf } from '../../support/worker.ts';
import { batchSizesOf, type EngineUnderTest, floatsOf, startEngine, statsOf, temporaryFolder } from '../engine/kit.ts';
import { MINILM_INPUTS, parameters, textInputs, tokens, writeMinilm } from '../engine/minilm-models.ts';
import { knows, type Pool, startPool } from './pool.ts';

let pool: Pool;
let folder: ReturnType<typeof temporaryFolder>;
let running: EngineUnderTest;
let closeConsumer: (() => Promise<void>) | undefined;

beforeEach(async () => {
  folder = temporaryFolder();
  writeMinilm(folder.path, {
    m: `dynamic_batching { max_queue_delay_microseconds: 200000 preferred_batch_size: 6 } ${parameters({
      batch_curve: 'off',
      'padding.inputs': MINILM_INPUTS.replace('=mask', '=generated_mask'),
      'padding.outputs': 'last_hidden_state',
    })}`,
  });
  running = await startEngine([folder.path]);
  pool = await startPool();
});

afterEach(async () => {
  await closeConsumer?.();
  await pool.close();
  await running.close();
  folder.remove();
});

describe('padding behind the queue', () => {
  it('merges requests of different lengths, and the producer counts the same padding as the worker', async () => {
    const { engine } = running;
    const consumer = await createConsumer({ redisUrl: pool.redis.url, engine, logger: silentLogger });
    closeConsumer = () => consumer.close(0);
    const producer = await pool.producer();
    await knows(producer, 'm');
    const ask = (inputs: readonly Tensor[]) =>
      producer.infer({ id: '', model: 'm', version: '', inputs, outputs: [], parameters: NO_PARAMETERS }, callOf());
    const lengths = [9, 10, 12, 13, 15, 16];
    const texts = lengths.map((length) => textInputs(tokens(length, length)));
    const alone: number[][] = [];
    for (const inputs of texts) {
      const response = await engine.infer(
        { id: '', model: 'm', version: '', inputs, outputs: [], parameters: NO_PARAMETERS },
        callOf(),
      );
      alone.push(floatsOf(response.outputs[1]));
    }
    const before = statsOf(engine, 'm').executionCount;
    const withoutMask = texts.map((inputs) => inputs.filter(({ name }) => name !== 'attention_mask'));
    const answers = await Promise.all(withoutMask.map(ask));
    for (const [index, { outputs }] of answers.entries()) {
      expect(outputs[1]!.shape).toEqual([1, lengths[index], 384]);
      const own = floatsOf(outputs[1]);
      expect(Math.max(...own.map((value, at) => Math.abs(value - alone[index]![at]!)))).toBeLessThan(1e-5);
    }
    expect(statsOf(engine, 'm').executionCount - before).toBeLessThan(lengths.length);
    expect(
      Object.keys(batchSizesOf(engine, 'm'))
        .map(Number)
        .some((rows) => rows > 1),
    ).toBe(true);
    const shares = answers.filter(({ timings }) => timings.executions === 1).map(({ timings }) => timings);
    const padded = shares.reduce((sum, { paddedElements = 0 }) => sum + paddedElements, 0);
    expect(padded).toBeGreaterThan(0);
    expect(padded).toBe(statsOf(engine, 'm').paddedElements);
  });
});
