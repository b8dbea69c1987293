import { beforeEach, describe, expect, it } from 'vitest';
import { ModelStats } from '../../../../shared/infer/model-stats.ts';
import { SpeedMeter } from '../../../../worker/consumer/speed-meter.ts';

const stats = new Map<string, ModelStats>();
const slots = new Map<string, number>();
const members = new Map<string, string[]>();
let meter: SpeedMeter;
let nowMs: number;

beforeEach(() => {
  for (const map of [stats, slots, members]) map.clear();
  meter = new SpeedMeter({
    stats: () => stats.values(),
    slotsOf: (model) => slots.get(model) ?? 1,
    membersOf: (model) => members.get(model) ?? [],
  });
  nowMs = 0;
});

function statsOf(model: string): ModelStats {
  const known = stats.get(model) ?? new ModelStats(model, '1');
  stats.set(model, known);
  return known;
}

/** One run of so many rows, each of its own request. */
function run(model: string, rows: number, computeMs: number): void {
  for (let row = 0; row < rows; row += 1) {
    statsOf(model).recordSuccess(1, 1000, {
      queueUs: 0,
      computeInputUs: 0,
      computeInferUs: computeMs * 1000,
      computeOutputUs: 0,
      batchSize: rows,
      executions: row === 0 ? 1 : 0,
      release: 'full',
    });
  }
}

function second(loop = 0): void {
  nowMs += 1000;
  meter.sample(nowMs, loop);
}

describe('SpeedMeter', () => {
  it('knows no speed before anything has run', () => {
    statsOf('m');
    second();
    second(0.5);
    expect(meter.of('m')).toEqual({ rowsPerSecond: undefined, load: 0 });
    expect(meter.of('other').rowsPerSecond).toBeUndefined();
  });

  it('says what a worker could do, whatever it has to do', () => {
    statsOf('m');
    second();
    run('m', 4, 20);
    second();
    expect(meter.of('m').rowsPerSecond).toBeCloseTo(200);
    expect(meter.of('m').load).toBeLessThan(0.02);
    for (let i = 0; i < 20; i += 1) second();
    expect(meter.of('m').rowsPerSecond).toBeCloseTo(200);
  });

  it('counts instances that run side by side', () => {
    slots.set('m', 2);
    statsOf('m');
    second();
    run('m', 10, 500);
    run('m', 10, 500);
    second();
    expect(meter.of('m').rowsPerSecond).toBeCloseTo(40);
  });

  it('takes the event loop for the bottleneck where it costs more than the runs', () => {
    statsOf('m');
    second();
    run('m', 30, 1);
    second(0.3);
    expect(meter.of('m').rowsPerSecond).toBeCloseTo(100);
  });

  it('shares the event loop among models by their rows', () => {
    statsOf('a');
    statsOf('b');
    second();
    run('a', 30, 1);
    run('b', 10, 1);
    second(0.4);
    expect(meter.of('a').rowsPerSecond).toBeCloseTo(100);
    expect(meter.of('b').rowsPerSecond).toBeCloseTo(100);
  });

  it('follows a model that becomes slower', () => {
    statsOf('m');
    second();
    run('m', 100, 1000);
    second();
    expect(meter.of('m').rowsPerSecond).toBeCloseTo(100);
    for (let i = 0; i < 30; i += 1) {
      run('m', 10, 1000);
      second();
    }
    const speed = meter.of('m').rowsPerSecond ?? 0;
    expect(speed).toBeGreaterThan(10);
    expect(speed).toBeLessThan(11);
    expect(meter.of('m').load).toBeGreaterThan(0.95);
  });

  it('charges an ensemble with the runs of its members', () => {
    members.set('ensemble', ['step']);
    statsOf('step');
    statsOf('ensemble');
    second();
    run('step', 10, 100);
    for (let row = 0; row < 10; row += 1) {
      const timings = { queueUs: 0, computeInputUs: 0, computeInferUs: 0, computeOutputUs: 0, batchSize: 1 };
      statsOf('ensemble').recordSuccess(1, 1000, { ...timings, executions: 0, release: 'direct' });
    }
    second();
    expect(meter.of('ensemble').rowsPerSecond).toBeCloseTo(100);
  });

  it('measures nothing where a version begins anew', () => {
    statsOf('m');
    second();
    run('m', 10, 100);
    second();
    stats.set('m', new ModelStats('m', '1'));
    second();
    expect(meter.of('m').rowsPerSecond).toBeCloseTo(100);
  });
});
