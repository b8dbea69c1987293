import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { InferError } from '../../../shared/errors.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { until } from '../../support/redis.ts';
import { callOf, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from './pool.ts';

describe('a request through the queue', () => {
  let pool: Pool;
  beforeEach(async () => {
    pool = await startPool();
  });
  afterEach(() => pool.close());

  it('comes back with its own answer', async () => {
    await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    const response = await producer.infer(requestOf('echo', Buffer.from('hello')), callOf());
    expect(response.model).toBe('echo');
    expect(Buffer.from(response.outputs[0]!.data).toString()).toBe('hello');
    expect(response.timings.computeInferUs).toBe(3);
  });

  it('carries parameters of every kind, names outside ASCII and both ids', async () => {
    const { engine } = await pool.worker([{ name: 'ünï/cödé {x}:*' }]);
    const producer = await pool.producer();
    const parameters = { big: 2n ** 63n - 1n, flag: false, rate: 0.5, none: Number.NaN, text: '}{' };
    const request = requestOf('ünï/cödé {x}:*', Buffer.of(1), { id: 'mine', outputs: ['y'], parameters });
    const response = await producer.infer(request, callOf());
    expect(response.parameters).toEqual(parameters);
    expect(engine.seen[0]).toMatchObject({ id: 'mine', outputs: ['y'], parameters });
  });

  it('carries small, big and empty tensors byte for byte, and pixels with their encoding', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    const pixels = { layout: 'NCHW', rescale: 1 / 255, mean: [0.5, 0.5, 0.5], std: [1, 2, 3] } as const;
    const inputs: Tensor[] = [
      { name: 'big', datatype: 'UINT8', shape: [40_000], data: randomBytes(40_000) },
      { name: 'small', datatype: 'FP32', shape: [2], data: randomBytes(8) },
      { name: 'none', datatype: 'INT64', shape: [0, 3], data: Buffer.alloc(0) },
      { name: 'image', datatype: 'FP32', shape: [1, 3, 2, 2], data: randomBytes(12), pixels },
      { name: 'text', datatype: 'BYTES', shape: [1], data: Buffer.from('\u0003\0\0\0abc') },
    ];
    await producer.infer(requestOf('echo', Buffer.of(1), { inputs }), callOf());
    const seen = engine.seen[0]!.inputs.map((input) => ({ ...input, data: Buffer.from(input.data) }));
    expect(seen).toEqual(inputs.map((input) => ({ ...input, data: Buffer.from(input.data) })));
  });

  it('gives each of many concurrent callers its own answer', async () => {
    await pool.worker([{ name: 'echo', maxBatchSize: 32 }]);
    const producer = await pool.producer();
    const texts = Array.from({ length: 500 }, (_, index) => `request ${index}`);
    const answers = await Promise.all(
      texts.map((text) => producer.infer(requestOf('echo', Buffer.from(text)), callOf())),
    );
    expect(answers.map((answer) => Buffer.from(answer.outputs[0]!.data).toString())).toEqual(texts);
  });

  it('carries what arrives together in one job', async () => {
    const { engine } = await pool.worker([{ name: 'echo', maxBatchSize: 32 }]);
    const producer = await pool.producer();
    const one = Buffer.of(1);
    await Promise.all(Array.from({ length: 8 }, () => producer.infer(requestOf('echo', one), callOf())));
    expect(engine.seen).toHaveLength(8);
    expect(await producer.queues()[0]!.getJobCountByTypes('completed', 'active')).toBe(1);
  });

  it('never puts more rows into a job than the model takes at once', async () => {
    await pool.worker([{ name: 'echo', maxBatchSize: 4 }]);
    const producer = await pool.producer();
    const two = { name: 'x', datatype: 'UINT8', shape: [2, 1], data: Buffer.of(1, 2) } as const;
    await Promise.all(
      Array.from({ length: 6 }, () => producer.infer(requestOf('echo', two.data, { inputs: [two] }), callOf())),
    );
    const jobs = await producer.queues()[0]!.getJobs(['completed', 'active']);
    expect(jobs.map((job) => (job.data as { items: unknown[] }).items.length)).toEqual([2, 2, 2]);
  });

  it('brings the error of the engine with its code and text', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    const producer = await pool.producer();
    const answer = producer.infer(requestOf('echo', Buffer.of(1)), callOf());
    answer.catch(() => undefined);
    await until('the request is held', () => engine.held.length === 1);
    engine.held[0]!.fail(new InferError('INVALID_ARGUMENT', 'index 9 is out of range'));
    await expect(answer).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: 'index 9 is out of range' });
  });

  it('shares the work between two workers', async () => {
    const [a, b] = [await pool.worker([{ name: 'echo' }]), await pool.worker([{ name: 'echo' }])];
    const producer = await pool.producer();
    await knows(producer, 'echo');
    for (let round = 0; round < 20; round += 1) {
      await Promise.all(
        Array.from({ length: 20 }, () => producer.infer(requestOf('echo', Buffer.of(round)), callOf())),
      );
    }
    expect(a.engine.seen.length + b.engine.seen.length).toBe(400);
    expect(a.engine.seen.length).toBeGreaterThan(0);
    expect(b.engine.seen.length).toBeGreaterThan(0);
  });
});
