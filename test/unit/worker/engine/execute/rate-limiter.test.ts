import { describe, expect, it } from 'vitest';
import { type InstanceNeeds, RateLimiter } from '../../../../../worker/engine/execute/rate-limiter.ts';
import type { RunGate } from '../../../../../worker/engine/execute/run-slots.ts';

function needs(resources: Record<string, number>, priority = 1, global = false): InstanceNeeds {
  return { resources: Object.entries(resources).map(([name, count]) => ({ name, count, global })), priority };
}

function limiter(slots = 100, limits: Record<string, number> = {}): RateLimiter {
  return new RateLimiter(slots, new Map(Object.entries(limits)));
}

/** The gate of a model with one instance. */
function gateOf(limits: RateLimiter, model: string, need: InstanceNeeds): RunGate {
  return limits.add(model, [need]).gates[0]!;
}

const NOBODY = { wake: () => {} };

/** Has always something to run, and counts how often it may. */
class Busy {
  runs = 0;
  running = false;
  readonly #gate: RunGate;

  constructor(gate: RunGate) {
    this.#gate = gate;
  }

  wake(): void {
    if (this.running || !this.#gate.take(this)) return;
    this.running = true;
    this.runs += 1;
  }

  end(): void {
    this.running = false;
    this.#gate.give(this);
    this.wake();
  }
}

describe('RateLimiter', () => {
  it('lets instances that name nothing run as long as there are threads', () => {
    const limits = limiter(2);
    const [a, b, c] = limits.add('m', [needs({}), needs({}), needs({})]).gates as [RunGate, RunGate, RunGate];
    expect([a, b, c].map((gate) => gate.take(NOBODY))).toEqual([true, true, false]);
    a.give(NOBODY);
    expect(c.take(NOBODY)).toBe(true);
  });

  it('keeps two from running that together need more than there is', () => {
    const limits = limiter();
    const a = gateOf(limits, 'a', needs({ R: 2 }));
    const b = gateOf(limits, 'b', needs({ R: 1 }));
    expect(a.take(NOBODY)).toBe(true);
    expect(b.take(NOBODY)).toBe(false);
    a.give(NOBODY);
    expect(b.take(NOBODY)).toBe(true);
    expect(a.take(NOBODY)).toBe(false);
  });

  it('has of each resource what the hungriest instance takes, and less when it is gone', () => {
    const limits = limiter();
    const big = limits.add('big', [needs({ R: 3 })]);
    const gates = Array.from({ length: 4 }, (_, i) => gateOf(limits, `small${i}`, needs({ R: 1 })));
    expect(gates.map((gate) => gate.take(NOBODY))).toEqual([true, true, true, false]);
    for (const gate of gates.slice(0, 3)) gate.give(NOBODY);
    big.close();
    expect(gates.slice(0, 2).map((gate) => gate.take(NOBODY))).toEqual([true, false]);
  });

  it('takes the limits of the operator, and refuses a model that could never run', () => {
    const limits = limiter(100, { R: 2 });
    const gates = limits.add('m', [needs({ R: 1 }), needs({ R: 1 }), needs({ R: 1 })]).gates;
    expect(gates.map((gate) => gate.take(NOBODY))).toEqual([true, true, false]);
    expect(() => limits.add('n', [needs({ R: 3 })])).toThrow(
      'model "n": rate_limiter: resource "R": 3 are needed, --rate-limit-resource gives 2',
    );
    expect(() => limits.add('n', [needs({ S: 1 })])).toThrow(
      'resource "S": 1 are needed, --rate-limit-resource gives 0',
    );
  });

  it('refuses one name for a global resource and one of the device', () => {
    const limits = limiter();
    limits.add('m', [needs({ R: 1 })]);
    expect(() => limits.add('n', [needs({ R: 1 }, 1, true)])).toThrow('"R" is global for some instances and not');
    expect(() => limits.add('n', [needs({ S: 1 }, 1, true)])).not.toThrow();
  });

  it('wakes whoever waits once it may run', () => {
    const limits = limiter();
    const a = gateOf(limits, 'a', needs({ R: 1 }));
    const b = new Busy(gateOf(limits, 'b', needs({ R: 1 })));
    expect(a.take(NOBODY)).toBe(true);
    b.wake();
    expect(b.runs).toBe(0);
    a.give(NOBODY);
    expect(b.runs).toBe(1);
  });

  it('gives priority n 1/n of the chances', () => {
    const limits = limiter();
    const models = [1, 2, 4].map((priority) => new Busy(gateOf(limits, `m${priority}`, needs({ R: 1 }, priority))));
    for (const model of models) model.wake();
    for (let i = 0; i < 700; i += 1) models.find(({ running }) => running)?.end();
    const total = models.reduce((sum, { runs }) => sum + runs, 0);
    expect(models.map(({ runs }) => Math.round((runs / total) * 7))).toEqual([4, 2, 1]);
  });

  it('gives one that was idle no more than its share afterwards', () => {
    const limits = limiter();
    const a = new Busy(gateOf(limits, 'a', needs({ R: 1 })));
    const b = new Busy(gateOf(limits, 'b', needs({ R: 1 })));
    a.wake();
    for (let i = 0; i < 1000; i += 1) a.end();
    b.wake();
    const before = a.runs;
    for (let i = 0; i < 100; i += 1) [a, b].find(({ running }) => running)?.end();
    expect(a.runs - before).toBeGreaterThan(45);
    expect(b.runs).toBeGreaterThan(45);
  });

  it('lets those behind one that waits for much not take it away bit by bit', () => {
    const limits = limiter();
    const big = new Busy(gateOf(limits, 'big', needs({ R: 2 })));
    const [one, two] = ['one', 'two'].map((name) => new Busy(gateOf(limits, name, needs({ R: 1 })))) as [Busy, Busy];
    one.wake();
    two.wake();
    big.wake();
    expect([one.running, two.running, big.running]).toEqual([true, true, false]);
    one.end();
    expect([one.running, big.running]).toEqual([false, false]);
    two.end();
    expect([one.running, two.running, big.running]).toEqual([false, false, true]);
  });

  it('lets those pass that need other things', () => {
    const limits = limiter();
    const holder = gateOf(limits, 'holder', needs({ R: 1 }));
    const stuck = gateOf(limits, 'stuck', needs({ R: 1 }));
    const other = gateOf(limits, 'other', needs({ S: 1 }));
    const free = gateOf(limits, 'free', needs({}));
    expect([holder, stuck, other, free].map((gate) => gate.take(NOBODY))).toEqual([true, false, true, true]);
  });

  it('forgets a model that is gone', () => {
    const limits = limiter();
    const holder = gateOf(limits, 'holder', needs({ R: 1 }));
    const waiting = limits.add('waiting', [needs({ R: 1 })]);
    const next = new Busy(gateOf(limits, 'next', needs({ R: 1 })));
    holder.take(NOBODY);
    waiting.gates[0]!.take({
      wake: () => {
        throw new Error('woken');
      },
    });
    next.wake();
    waiting.close();
    holder.give(NOBODY);
    expect(next.running).toBe(true);
  });
});
