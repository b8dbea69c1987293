import { afterEach, beforeEach } from 'vitest';
import type { QueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import type { Parameters } from '../../../shared/infer/request.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { type Consumer, createConsumer } from '../../../worker/consumer/create-consumer.ts';
import type { EngineOptions } from '../../../worker/engine/create-engine.ts';
import { until } from '../../support/redis.ts';
import { callOf } from '../../support/worker.ts';
import { type EngineUnderTest, f32, floatsOf, startEngine, temporaryFolder } from '../engine/kit.ts';
import { type Pool, startPool } from './pool.ts';

export interface SequenceWorker extends EngineUnderTest {
  readonly consumer: Consumer;
}

export interface Asked {
  readonly model?: string;
  readonly version?: string;
  /** Of x; the models take [1, 1]. */
  readonly shape?: readonly number[];
}

/** A repository and a pool with real workers for each test of the file, gone after it. */
export function useSequencePool() {
  let pool: Pool;
  let folder: ReturnType<typeof temporaryFolder>;
  const workers: SequenceWorker[] = [];

  beforeEach(async () => {
    folder = temporaryFolder();
    pool = await startPool();
  });
  afterEach(async () => {
    await Promise.all(workers.map(({ consumer }) => consumer.close(100)));
    await Promise.all(workers.splice(0).map((worker) => worker.close()));
    await pool.close();
    folder.remove();
  });

  return {
    folder: () => folder.path,
    redis: () => pool.redis.client(),
    worker: async (options: Partial<EngineOptions> = {}): Promise<SequenceWorker> => {
      const all = { controlMode: 'explicit', loadAtStart: ['*'], ...options } as const;
      const engine = await startEngine([folder.path], all);
      const consumer = await createConsumer({ redisUrl: pool.redis.url, engine: engine.engine, logger: silentLogger });
      const worker = { ...engine, consumer };
      workers.push(worker);
      return worker;
    },
    /** One that knows so many workers with the model. */
    producer: async (count: number, model = 'sum'): Promise<QueueDispatcher> => {
      const dispatcher = await pool.producer();
      await until('it knows the workers', () => dispatcher.catalog.workersServing(model, '').length === count);
      return dispatcher;
    },
  };
}

/** What a sum model says of the sequence with one more x. */
export async function sum(
  dispatcher: QueueDispatcher,
  id: number | string,
  x: number,
  flags: Parameters = {},
  { model = 'sum', version = '', shape = [1, 1] }: Asked = {},
): Promise<number> {
  const inputs = [f32('x', shape, new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(x))];
  const request = { id: '', model, version, inputs, outputs: [], parameters: { sequence_id: id, ...flags } };
  const { outputs } = await dispatcher.infer(request, callOf());
  return floatsOf(outputs[0])[0]!;
}
