import { setImmediate as nextTurn } from 'node:timers/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFixtureModel } from '../../fixtures/make-models.ts';
import type { EngineUnderTest } from './kit.ts';
import { codeOf, i64, intsFrom, send, startEngine, statsOf, temporaryFolder } from './kit.ts';

let folder: ReturnType<typeof temporaryFolder>;
let running: EngineUnderTest;

beforeEach(() => {
  folder = temporaryFolder();
});

afterEach(async () => {
  await running.close();
  folder.remove();
});

/** The model `slow`, whose runs take about 50 ms for each unit of its input. */
async function startSlow(batching: string, instances = 1, maxBatchSize = 1) {
  const io = 'input { name: "x" data_type: TYPE_INT64 dims: 1 } output { name: "y" data_type: TYPE_INT64 dims: 1 }';
  const groups = `instance_group { count: ${instances} kind: KIND_CPU }`;
  const config = `max_batch_size: ${maxBatchSize} dynamic_batching { ${batching} } ${io} ${groups}`;
  makeFixtureModel(join(folder.path, 'slow'), 'slow', config);
  running = await startEngine([folder.path]);
  const { engine } = running;
  const ask = (units: number, options: Parameters<typeof send>[3] = {}) =>
    send(engine, 'slow', [i64('x', [1, 1], [units])], options);
  return { engine, ask };
}

describe('queue policies on a real model', () => {
  it('turns a request away when its time in the queue is over, while another still runs (E01)', async () => {
    const { engine, ask } = await startSlow(
      'default_queue_policy { default_timeout_microseconds: 150000 allow_timeout_override: true }',
    );
    let runs = true;
    const running = intsFrom(ask(12)).finally(() => (runs = false));
    const [queued, sooner] = [ask(1), ask(1, { parameters: { timeout: 50_000 } })];
    expect(await codeOf(sooner)).toBe('UNAVAILABLE');
    expect(await codeOf(queued)).toBe('UNAVAILABLE');
    expect(runs).toBe(true);
    await expect(queued.result).rejects.toThrow(/Request timeout expired/);
    expect(await running).toEqual([12]);
    expect(statsOf(engine, 'slow').failures).toEqual({ REJECTED: 2, CANCELED: 0, BACKEND: 0, OTHER: 0 });
  });

  it('turns away at once what a full queue has no room for, and counts it nowhere', async () => {
    const { engine, ask } = await startSlow('default_queue_policy { max_queue_size: 2 }');
    const sent = [3, 0, 0, 0, 0].map((units) => ask(units));
    expect(await Promise.all(sent.map(codeOf))).toEqual([
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'UNAVAILABLE',
      'UNAVAILABLE',
    ]);
    await expect(sent[4]!.result).rejects.toThrow(/Exceeds maximum queue size: 2/);
    expect(statsOf(engine, 'slow')).toMatchObject({ success: { count: 3 }, fail: { count: 0 } });
  });

  it('answers the more urgent request first', async () => {
    const { ask } = await startSlow('priority_levels: 3 default_priority_level: 2');
    const order: number[] = [];
    const first = { priority: 0, one: ask(1) };
    await nextTurn(); // it runs
    const sent = [first, ...[3, 0, 1].map((priority) => ({ priority, one: ask(1, { priority }) }))];
    await Promise.all(sent.map(({ priority, one }) => intsFrom(one).then(() => order.push(priority))));
    expect(order).toEqual([0, 1, 0, 3]);
  });

  it('serves a late request last where the policy delays', async () => {
    const { ask } = await startSlow(
      'default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 60000000 allow_timeout_override: true }',
    );
    const order: string[] = [];
    const sent = [
      { name: 'filler', one: ask(6) },
      { name: 'late', one: ask(1, { parameters: { timeout: 1000 } }) },
      { name: 'in time', one: ask(1) },
    ];
    await Promise.all(sent.map(({ name, one }) => intsFrom(one).then(() => order.push(name))));
    expect(order).toEqual(['filler', 'in time', 'late']);
  });

  it('answers in the order of arrival with several instances where order is to be preserved', async () => {
    const { ask } = await startSlow('preserve_ordering: true', 2, 2);
    const order: number[] = [];
    const units = [5, 0, 1, 0, 2, 0];
    await Promise.all(units.map((unit, index) => intsFrom(ask(unit)).then(() => order.push(index))));
    expect(order).toEqual([0, 1, 2, 3, 4, 5]);
  });
});
