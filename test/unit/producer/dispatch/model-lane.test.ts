import { describe, expect, it } from 'vitest';
import { ModelLane } from '../../../../producer/dispatch/model-lane.ts';
import type { PendingRequest } from '../../../../producer/dispatch/pending-requests.ts';
import type { Timings } from '../../../../shared/infer/response.ts';

const RAN: Timings = {
  queueUs: 0,
  computeInputUs: 0,
  computeInferUs: 10_000,
  computeOutputUs: 0,
  batchSize: 2,
  executions: 1,
  release: 'idle',
};

/** A lane whose clock stands still until it is moved, and the sizes of the bundles that have left. */
function startLane() {
  let nowMs = 1000;
  const timers: number[] = [];
  const bundles: number[] = [];
  const lane = new ModelLane({
    link: { state: { kind: 'up' } },
    clock: {
      now: () => nowMs,
      setTimer(_callback, ms) {
        timers.push(ms);
        return () => undefined;
      },
    },
    limits: { maxRequests: 32, maxBytes: 1000, windowMs: 2, maxAddsInFlight: 4 },
    send: (requests) => {
      bundles.push(requests.length);
      return Promise.resolve();
    },
    onRefused: () => undefined,
  });
  const push = async () => {
    const request = { rows: 1, bytes: 1, settled: false, call: { arrivalMs: nowMs } } as unknown as PendingRequest;
    lane.push(request, 16);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { lane, timers, bundles, push, pass: (ms: number) => (nowMs += ms) };
}

describe('the lane of a model', () => {
  it('lets a request wait 2 ms for company while requests hardly wait for the model', async () => {
    const { lane, timers, bundles, push, pass } = startLane();
    for (let answer = 0; answer < 50; answer++) lane.noteAnswer(RAN, 12);
    await push();
    expect(bundles).toEqual([1]);
    pass(1);
    await push();
    expect(timers).toEqual([1]);
  });

  it('lets it wait longer where requests wait long, and full bundles leave at once', async () => {
    const { lane, timers, bundles, push, pass } = startLane();
    for (let answer = 0; answer < 50; answer++) lane.noteAnswer(RAN, 10 + 320);
    await push();
    pass(1);
    await push();
    expect(timers).toHaveLength(1);
    expect(timers[0]).toBeCloseTo(19, 1);
    for (let more = 0; more < 3; more++) await push();
    expect(bundles).toEqual([1, 4]);
  });

  it('lets it wait no longer as soon as one answer came soon', async () => {
    const { lane, timers, push, pass } = startLane();
    for (let answer = 0; answer < 50; answer++) lane.noteAnswer(RAN, 330);
    lane.noteAnswer(RAN, 12);
    await push();
    pass(1);
    await push();
    expect(timers).toEqual([1]);
  });
});
