import { describe, expect, it } from 'vitest';
import { RateLimiter } from '../../../../../worker/engine/execute/rate-limiter.ts';
import { DirectScheduler } from '../../../../../worker/engine/schedule/direct-scheduler.ts';
import { type FakeInstance, settle } from '../support/fake-instance.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

interface Need {
  readonly resources: Record<string, number>;
  readonly priority?: number;
}

/** A model with an instance for each of the needs. */
function model(limiter: RateLimiter, ...needs: Need[]) {
  const parts = schedulerParts({ instances: needs.length });
  const { gates } = limiter.add(
    'm',
    needs.map(({ resources, priority = 1 }) => ({
      resources: Object.entries(resources).map(([name, count]) => ({ name, count, global: false })),
      priority,
    })),
  );
  const scheduler = new DirectScheduler({
    ...parts,
    gates: new Map(parts.instances.map((instance, index) => [instance, gates[index]!])),
  });
  const ask = (count: number, timeoutMs = Infinity) =>
    Array.from({ length: count }, (_, i) => {
      const result = scheduler.enqueue(request([i]), callAt(parts.clock, timeoutMs));
      result.catch(() => {});
      return result;
    });
  return { ...parts, scheduler, ask };
}

const runsOf = (instances: readonly FakeInstance[]) => instances.map(({ runs }) => runs.length);

describe('runs with a rate limiter', () => {
  it('go to the instance whose resources are free', async () => {
    const limiter = new RateLimiter(8, new Map());
    const holder = model(limiter, { resources: { R: 1 } });
    const both = model(limiter, { resources: { R: 1 } }, { resources: {} });
    void holder.ask(1);
    void both.ask(3);
    expect(runsOf(both.instances)).toEqual([0, 1]);
    holder.instances[0]!.runs[0]!.finish();
    await settle();
    expect(runsOf(both.instances)).toEqual([1, 1]);
    both.instances[1]!.runs[0]!.finish();
    await settle();
    expect(runsOf(both.instances)).toEqual([1, 2]);
  });

  it('follow the priorities of models that both have work', async () => {
    const limiter = new RateLimiter(8, new Map());
    const often = model(limiter, { resources: { R: 1 }, priority: 1 });
    const seldom = model(limiter, { resources: { R: 1 }, priority: 3 });
    void often.ask(60);
    void seldom.ask(60);
    for (let i = 0; i < 40; i += 1) {
      for (const { instances } of [often, seldom]) instances[0]!.runs.at(-1)?.finish();
      await settle();
    }
    const [a = 0, b = 0] = [...runsOf(often.instances), ...runsOf(seldom.instances)];
    expect(a + b).toBe(41);
    expect(Math.abs(a - 3 * b)).toBeLessThanOrEqual(4);
  });

  it('give back what they took for requests that nobody waits for any more', async () => {
    const limiter = new RateLimiter(8, new Map());
    const holder = model(limiter, { resources: { R: 1 } });
    const late = model(limiter, { resources: { R: 1 } });
    const other = model(limiter, { resources: { R: 1 } });
    void holder.ask(1);
    const [expired] = late.ask(1, 10);
    void other.ask(1);
    late.clock.advance(20);
    holder.instances[0]!.runs[0]!.finish();
    await settle();
    await expect(expired).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect([runsOf(late.instances), runsOf(other.instances)]).toEqual([[0], [1]]);
  });
});
