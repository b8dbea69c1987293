import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import type { Run } from '../../../../../worker/engine/instance/instance.ts';
import { AGED_AFTER_MS, AGED_TURN_EVERY } from '../../../../../worker/engine/schedule/aged-turns.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import type { LevelPolicy, QueuePolicy } from '../../../../../worker/engine/schedule/queue-policy.ts';
import type { FakeClock } from '../support/fake-clock.ts';
import { FakeInstance, floatsOf, settle } from '../support/fake-instance.ts';
import { modelPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

const MAX_ROWS = 4;
const DELAY_MS = 5;
const NO_LIMITS: LevelPolicy = { maxQueueSize: Infinity, timeoutMs: Infinity, allowsOverride: false, delays: false };
/** Level 1 refuses late requests, level 2 moves them behind, level 3 is short. */
const POLICY: QueuePolicy = {
  levels: 3,
  defaultLevel: 2,
  defaultPolicy: NO_LIMITS,
  policies: new Map([
    [1, { maxQueueSize: Infinity, timeoutMs: 30, allowsOverride: true, delays: false }],
    [2, { maxQueueSize: Infinity, timeoutMs: 20, allowsOverride: true, delays: true }],
    [3, { ...NO_LIMITS, maxQueueSize: 3 }],
  ]),
  reorders: true,
};

type Event =
  | {
      readonly kind: 'arrive';
      readonly rows: number;
      readonly columns: number;
      readonly priority: number;
      readonly timeoutMs: number;
    }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'finish' | 'cancel' };

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 7,
    arbitrary: fc.record({
      kind: fc.constant('arrive' as const),
      rows: fc.integer({ min: 1, max: MAX_ROWS }),
      columns: fc.integer({ min: 1, max: 2 }),
      priority: fc.integer({ min: 0, max: 4 }),
      timeoutMs: fc.nat({ max: 40 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 12 }) }) },
  { weight: 3, arbitrary: fc.constant({ kind: 'finish' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'cancel' as const }) },
);

/** Remembers when each run began. */
class TimedInstance extends FakeInstance {
  readonly startedMs: number[] = [];
  readonly #clock: FakeClock;

  constructor(clock: FakeClock) {
    super();
    this.#clock = clock;
  }

  override run(inputs: readonly Tensor[], outputs: readonly string[], alone?: boolean): Run {
    this.startedMs.push(this.#clock.now());
    return super.run(inputs, outputs, alone);
  }
}

/** What the rules say of one waiting request, kept the slow and obvious way. */
interface Expected {
  readonly id: number;
  readonly rows: number;
  readonly columns: number;
  readonly level: number;
  readonly enqueuedMs: number;
  readonly expiresMs: number;
  readonly cancel: () => void;
  outcome: string;
}

class Model {
  waiting: Expected[] = [];

  /** The order in which a shape has to run at that time. */
  order(columns: number, nowMs: number): Expected[] {
    const late = (one: Expected) => one.level === 2 && one.expiresMs <= nowMs;
    return this.waiting
      .filter((one) => one.columns === columns && !(one.level === 1 && one.expiresMs <= nowMs))
      .sort(
        (a, b) =>
          a.level - b.level ||
          Number(late(a)) - Number(late(b)) ||
          (late(a) ? a.expiresMs - b.expiresMs : 0) ||
          a.id - b.id,
      );
  }

  expire(nowMs: number): Expected[] {
    const expired = this.waiting.filter((one) => one.level === 1 && one.expiresMs <= nowMs);
    this.waiting = this.waiting.filter((one) => !expired.includes(one));
    return expired;
  }
}

const timeoutOf = (level: number, askedMs: number): number => {
  const limitMs = [Infinity, 30, 20, Infinity][level]!;
  return limitMs < Infinity && askedMs > 0 && askedMs < limitMs ? askedMs : limitMs;
};

describe('DynamicBatchScheduler with a queue policy, for any course of events', () => {
  it('keeps order, sizes, times and shapes as a plain list with the same rules does', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { minLength: 10, maxLength: 100, size: 'max' }), async (events) => {
        const parts = schedulerParts({ plan: modelPlan({ maxRows: MAX_ROWS }) });
        const instance = new TimedInstance(parts.clock);
        const limits = { maxRows: MAX_ROWS, preferredRows: [MAX_ROWS], delayMs: DELAY_MS };
        const scheduler = new DynamicBatchScheduler({ ...parts, instances: [instance] }, limits, POLICY);
        const model = new Model();
        const sent: Expected[] = [];
        let runsSeen = 0;

        const checkRuns = async (): Promise<void> => {
          for (; runsSeen < instance.runs.length; runsSeen += 1) {
            const nowMs = instance.startedMs[runsSeen]!;
            const { inputs } = instance.runs[runsSeen]!;
            const [rows = 0, columns = 0] = inputs[0]!.shape;
            const ids = [...new Set(floatsOf(inputs[0]!))];
            expect(rows).toBeLessThanOrEqual(MAX_ROWS);
            expect(ids).toEqual(
              model
                .order(columns, nowMs)
                .slice(0, ids.length)
                .map(({ id }) => id),
            );
            model.waiting = model.waiting.filter(({ id }) => !ids.includes(id));
          }
          await settle();
          for (const one of model.expire(parts.clock.now())) expect(one.outcome).toBe('UNAVAILABLE queue');
          expect(scheduler.pending()).toBe(model.waiting.length);
          if (instance.runs.length > ended.size) return;
          for (const columns of [1, 2]) {
            const group = model.waiting.filter((one) => one.columns === columns);
            for (const { enqueuedMs } of group) expect(parts.clock.now() - enqueuedMs).toBeLessThan(DELAY_MS);
            expect(group.reduce((sum, one) => sum + one.rows, 0)).toBeLessThan(MAX_ROWS);
          }
        };
        const ended = new Set<object>();

        for (const one of events) {
          if (one.kind === 'arrive') {
            const { rows, columns, priority, timeoutMs } = one;
            const level = priority >= 1 && priority <= 3 ? priority : 2;
            const full = level === 3 && model.waiting.filter((other) => other.level === 3).length >= 3;
            const id = sent.length + 1;
            const call = callAt(parts.clock, Infinity, priority);
            const parameters = { timeout: timeoutMs * 1000 };
            const nowMs = parts.clock.now();
            const expected: Expected = {
              id,
              rows,
              columns,
              level,
              enqueuedMs: nowMs,
              expiresMs: nowMs + timeoutOf(level, timeoutMs),
              cancel: () => call.cancel(new InferError('CANCELLED', 'gone')),
              outcome: '',
            };
            const values = new Array<number>(rows * columns).fill(id);
            scheduler.enqueue({ ...request(values, columns), parameters }, call).then(
              () => (expected.outcome = 'answered'),
              (error: unknown) => {
                expected.outcome = error instanceof InferError ? `${error.code} ${error.refusedAt ?? ''}` : 'foreign';
              },
            );
            sent.push(expected);
            if (full) {
              await settle();
              expect(expected.outcome).toBe('UNAVAILABLE entry');
            } else {
              model.waiting.push(expected);
            }
          } else if (one.kind === 'pass') {
            for (let ms = 0; ms < one.ms; ms += 1) {
              parts.clock.advance(1);
              await checkRuns();
            }
          } else if (one.kind === 'cancel') {
            const last = model.waiting.at(-1);
            last?.cancel();
            model.waiting = model.waiting.filter((other) => other !== last);
          } else {
            const run = instance.runs.find((candidate) => !ended.has(candidate));
            if (run) ended.add(run);
            run?.finish();
            await settle();
          }
          await checkRuns();
        }
        for (;;) {
          const run = instance.runs.find((candidate) => !ended.has(candidate));
          if (!run && scheduler.pending() === 0) break;
          if (run) ended.add(run);
          run?.finish();
          await settle();
          parts.clock.advance(DELAY_MS);
        }
        await settle();
        expect(sent.filter(({ outcome }) => outcome === '')).toEqual([]);
        const rejected = sent.filter(({ outcome }) => outcome === 'UNAVAILABLE queue').length;
        expect(parts.stats.failures).toMatchObject({ REJECTED: rejected, BACKEND: 0, OTHER: 0 });
      }),
      { numRuns: 100 },
    );
  });

  it('lets nobody starve, however many urgent requests keep coming', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 1500 }),
        fc.integer({ min: 1, max: 3 }),
        async (low, runMs, maxRows) => {
          const parts = schedulerParts({ plan: modelPlan({ maxRows }) });
          const instance = parts.instances[0]!;
          const policy = { ...POLICY, defaultPolicy: NO_LIMITS, policies: new Map<number, LevelPolicy>() };
          const scheduler = new DynamicBatchScheduler(parts, { maxRows, preferredRows: [], delayMs: 0 }, policy);
          const send = (value: number, priority: number) => {
            scheduler.enqueue(request([value]), callAt(parts.clock, Infinity, priority)).catch(() => {}); // seen in the runs
          };
          const startMs = parts.clock.now();
          for (let i = 0; i < 2 * maxRows; i += 1) send(0, 1);
          for (let i = 1; i <= low; i += 1) send(i, 3);
          const limitMs = AGED_AFTER_MS + runMs * (1 + AGED_TURN_EVERY * Math.ceil(low / maxRows));
          while (parts.clock.now() - startMs < limitMs) {
            for (let i = 0; i < maxRows; i += 1) send(0, 1);
            parts.clock.advance(runMs);
            instance.runs.at(-1)!.finish();
            await settle();
          }
          const served = instance.batches.flat().filter((value) => value > 0);
          expect(served).toEqual(Array.from({ length: low }, (_, index) => index + 1));
        },
      ),
      { numRuns: 15 },
    );
  });
});
