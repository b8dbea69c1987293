import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ErrorCode, InferError } from '../../../../../shared/errors.ts';
import { type HeldRun, settle } from '../support/fake-instance.ts';
import { answerSums, columnOf, CONTROLS, createBench, IDLE_MS, type Outcome, STATE } from './kit.ts';

const MAX_BATCH = 3;
const IDS = [1, 2, 3, 4, 5, 6, 7, 8];

type Event =
  | { readonly kind: 'send'; readonly id: number; readonly end: boolean; readonly restart: boolean }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'fail'; readonly code: 'UNAVAILABLE' | 'INTERNAL' }
  | { readonly kind: 'answer' | 'cancel' };

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('send' as const),
      id: fc.constantFrom(...IDS),
      end: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
      restart: fc.integer({ min: 0, max: 7 }).map((n) => n === 0),
    }),
  },
  { weight: 4, arbitrary: fc.constant({ kind: 'answer' as const }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('fail' as const), code: fc.constantFrom('UNAVAILABLE', 'INTERNAL') }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'cancel' as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 9 }) }) },
);

const batching = fc.constantFrom(
  `direct { } ${STATE} ${CONTROLS}`,
  `direct { minimum_slot_utilization: 0.7 max_queue_delay_microseconds: 5000 } ${STATE} ${CONTROLS}`,
  `oldest { max_candidate_sequences: 5 max_queue_delay_microseconds: 5000 } ${STATE} ${CONTROLS}`,
  `oldest { max_candidate_sequences: 2 preferred_batch_size: 2 preserve_ordering: true } ${STATE} ${CONTROLS}`,
);

interface Sent {
  readonly id: number;
  readonly x: number;
  readonly start: boolean;
  readonly outcome: Outcome;
}

/** From its START on a sequence is in the same row of each run, in those too that come of a failed one. */
function expectRowsKept(runs: readonly HeldRun[]): void {
  const rows = new Map<number, number>();
  for (const run of runs) {
    const [ready, starts] = [columnOf(run, 'READY'), columnOf(run, 'START')];
    for (const [row, id] of columnOf(run, 'CORRID').entries()) {
      if (ready[row] !== 1) continue;
      if (starts[row] === 1) rows.set(id, row);
      expect(row).toBe(rows.get(id));
    }
  }
}

describe('SequenceScheduler, for any course of events', () => {
  it('shows each sequence the sum of its own requests, in order, never two of them in one run', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 80, size: 'max' }),
        batching,
        fc.integer({ min: 1, max: 2 }),
        async (events, config, instances) => {
          const bench = await createBench(config, { maxBatchSize: MAX_BATCH, instances });
          const sent: Sent[] = [];
          const live = new Set<number>();
          const ended = new Set<object>();
          const open = () => bench.runs.filter((run) => !ended.has(run));
          const end = async (failure?: ErrorCode, run = open()[0]) => {
            if (!run) return;
            ended.add(run);
            if (failure === undefined) answerSums(run);
            else run.fail(new InferError(failure, 'broken'));
            await settle();
          };

          for (const each of events) {
            if (each.kind === 'send') {
              const start = each.restart || !live.has(each.id);
              const flags = start && each.end ? 'both' : start ? 'start' : each.end ? 'end' : '';
              const x = 2 ** (sent.length % 20);
              sent.push({ id: each.id, x, start, outcome: bench.send(each.id, x, flags) });
              if (each.end) live.delete(each.id);
              else live.add(each.id);
            } else if (each.kind === 'pass') bench.parts.clock.advance(each.ms);
            else if (each.kind === 'cancel') sent.at(-1)?.outcome.call.cancel(new InferError('CANCELLED', 'gone'));
            else await end(each.kind === 'fail' ? each.code : undefined);
            await settle();
          }
          for (let quiet = 0; quiet < 3;) {
            quiet = open().length === 0 ? quiet + 1 : 0;
            await end();
            bench.parts.clock.advance(quiet === 0 ? 6 : IDLE_MS);
            await settle();
          }

          for (const run of bench.runs) {
            const ready = columnOf(run, 'READY');
            const ids = columnOf(run, 'CORRID').filter((_, row) => ready[row] === 1);
            expect(ids.length).toBeGreaterThan(0);
            expect(ids.length).toBeLessThanOrEqual(MAX_BATCH);
            expect(new Set(ids).size).toBe(ids.length);
          }
          if (config.startsWith('direct')) for (const { runs } of bench.parts.instances) expectRowsKept(runs);
          // Every answer is the answer before it in its sequence, or what was there at its START, plus its own x; requests
          // without an answer may count or not, as they may have run before they were given up.
          for (const id of IDS) {
            let sums = new Set([0]);
            for (const { x, start, outcome } of sent.filter((request) => request.id === id)) {
              if (start) sums = new Set([0]);
              const result = await outcome.result;
              if (typeof result === 'number') {
                expect([...sums].map((sum) => sum + x)).toContain(result);
                sums = new Set([result]);
              } else if (result === 'CANCELLED') for (const sum of [...sums]) sums.add(sum + x);
            }
          }
          expect(bench.scheduler.pending()).toBe(0);
          expect(bench.scheduler.open()).toBe(0);
          expect(bench.scheduler.sequences()).toBe(0);
        },
      ),
      { numRuns: 300 },
    );
  }, 60_000);
});
