import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { floatsOf, settle } from '../support/fake-instance.ts';
import { modelPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

const MAX_ROWS = 4;
const DELAY_MS = 5;

type Event =
  | { readonly kind: 'arrive'; readonly rows: number; readonly columns: number }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'finish' | 'fail' | 'cancel' };

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('arrive' as const),
      rows: fc.integer({ min: 1, max: MAX_ROWS }),
      columns: fc.integer({ min: 1, max: 2 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 8 }) }) },
  { weight: 3, arbitrary: fc.constant({ kind: 'finish' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'fail' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'cancel' as const }) },
);

describe('DynamicBatchScheduler, for any course of events', () => {
  it('answers everyone with their own rows, in batches of one shape within the maximum, in order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 60, size: 'max' }),
        fc.integer({ min: 1, max: 2 }),
        async (events, instances) => {
          const parts = schedulerParts({ plan: modelPlan({ maxRows: MAX_ROWS }), instances });
          const limits = { maxRows: MAX_ROWS, preferredRows: [MAX_ROWS], delayMs: DELAY_MS };
          const scheduler = new DynamicBatchScheduler(parts, limits);
          const sent: { id: number; cancel: () => void; outcome: Promise<number[] | string> }[] = [];
          const open = () => parts.instances.flatMap(({ runs }) => runs).filter((run) => !ended.has(run));
          const ended = new Set<object>();

          const arrive = (rows: number, columns: number) => {
            const id = sent.length + 1;
            const call = callAt(parts.clock);
            const values = new Array<number>(rows * columns).fill(id);
            const outcome = scheduler.enqueue(request(values, columns), call).then(
              ({ outputs }) => [...floatsOf(outputs[0]!)],
              (error: unknown) => (error instanceof InferError ? error.code : 'foreign'),
            );
            sent.push({ id, outcome, cancel: () => call.cancel(new InferError('CANCELLED', 'gone')) });
          };
          const end = async (how: 'finish' | 'fail') => {
            const run = open()[0];
            if (!run) return;
            ended.add(run);
            if (how === 'finish') run.finish();
            else run.fail(new InferError('INTERNAL', 'broken'));
            await settle();
          };

          for (const one of events) {
            if (one.kind === 'arrive') arrive(one.rows, one.columns);
            else if (one.kind === 'pass') parts.clock.advance(one.ms);
            else if (one.kind === 'cancel') sent.at(-1)?.cancel();
            else await end(one.kind);
          }
          while (open().length > 0 || scheduler.pending() > 0) {
            await end('finish');
            parts.clock.advance(DELAY_MS); // the longest that anything may wait while an instance is idle
          }

          for (const { inputs } of parts.instances.flatMap(({ runs }) => runs)) {
            expect(inputs[0]!.shape[0]).toBeLessThanOrEqual(MAX_ROWS);
          }
          if (instances === 1 && !events.some(({ kind }) => kind === 'fail')) {
            for (const columns of [1, 2]) {
              const runs = parts.instances[0]!.runs.filter(({ inputs }) => inputs[0]!.shape[1] === columns);
              const ids = runs.flatMap(({ inputs }) => [...floatsOf(inputs[0]!)]);
              expect(ids).toEqual(ids.toSorted((a, b) => a - b));
            }
          }
          for (const { id, outcome } of sent) {
            const values = await outcome;
            if (typeof values === 'string') expect(['CANCELLED', 'INTERNAL']).toContain(values);
            else expect(values.every((value) => value === id)).toBe(true);
          }
          const { success, failures } = parts.stats;
          expect(success.count + failures.BACKEND + failures.CANCELED).toBe(sent.length);
        },
      ),
      { numRuns: 150 },
    );
  });
});
