import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import type { InferRequest } from '../../../../../shared/infer/request.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { type HeldRun, floats, floatsOf, settle } from '../support/fake-instance.ts';
import { modelPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

/** A model whose output is declared to have the length of its input. */
function start({ roundUp = false, instances = 1 } = {}) {
  const zero = new Uint8Array(1);
  const padding = {
    active: true,
    inputs: [{ axes: [1], role: 'data' as const, fill: zero }],
    outputs: new Map([['y', [1]]]),
    buckets: [8],
    roundUp,
    selfTest: false,
  };
  const warned: unknown[] = [];
  const parts = schedulerParts({ plan: modelPlan({ padding }), instances });
  const logger = { ...parts.logger, warn: (_fields: object, event: string) => warned.push(event) };
  const scheduler = new DynamicBatchScheduler({ ...parts, logger }, { maxRows: 8, preferredRows: [], delayMs: 0 });
  const send = (...values: number[]) => {
    const asked: InferRequest = request(values, values.length);
    const answer = scheduler.enqueue(asked, callAt(parts.clock));
    return answer.then(
      ({ outputs }) => [...floatsOf(outputs[0]!)],
      (error: unknown) => String(error),
    );
  };
  const runs = () => parts.instances.flatMap((instance) => instance.runs);
  const shapes = () => runs().map(({ inputs }) => inputs[0]!.shape);
  return { send, runs, shapes, warned };
}

/** Answers with the first number of each row, whatever its length. */
function answerFirsts(run: HeldRun): void {
  const [input] = run.inputs;
  const [rows = 0, length = 0] = input!.shape;
  const values = Array.from({ length: rows }, (_, row) => floatsOf(input!)[row * length]!);
  run.answer([floats('y', [rows, 1], values)]);
}

async function answerAll(runs: () => readonly HeldRun[]): Promise<void> {
  for (let done = 0; done < runs().length; done += 1) {
    answerFirsts(runs()[done]!);
    await settle();
  }
}

describe('an output that has not the length that the config declares', () => {
  it('ends padding: requests of that run and all that follow run alone, as they came', async () => {
    const { send, runs, shapes, warned } = start();
    const first = send(9);
    const answers = [send(1, 2), send(3, 4, 5), send(6)];
    await answerAll(runs);
    expect(await first).toEqual([9]);
    expect(await Promise.all(answers)).toEqual([[1], [3], [6]]);
    const later = [send(7, 8), send(1, 2, 3)];
    await answerAll(runs);
    expect(await Promise.all(later)).toEqual([[7], [1]]);
    expect(shapes()).toEqual([
      [1, 1],
      [3, 3],
      [1, 2],
      [1, 3],
      [1, 1],
      [1, 2],
      [1, 3],
    ]);
    expect(warned).toEqual(['padding gives outputs of another length and is switched off, requests run alone']);
  });

  it('is no error of a lone request either, which was padded to its bucket', async () => {
    const { send, runs, shapes, warned } = start({ roundUp: true });
    const answers = [send(1, 2), send(3, 4, 5)];
    await answerAll(runs);
    expect(await Promise.all(answers)).toEqual([[1], [3]]);
    expect(shapes()).toEqual([
      [1, 8],
      [1, 8],
      [1, 2],
      [1, 3],
    ]);
    expect(warned).toHaveLength(1);
  });

  it('ends padding on all instances, and takes apart by the old rule what ran by it', async () => {
    const { send, runs, shapes } = start({ roundUp: true, instances: 2 });
    const answers = [send(1, 2, 3), send(4, 5, 6)];
    expect(shapes()).toEqual([
      [1, 8],
      [1, 8],
    ]);
    const [one, other] = [runs()[0]!, runs()[1]!];
    answerFirsts(one);
    await settle();
    other.finish(); // in the declared length, so its answer is cut
    await settle();
    for (const run of runs()) answerFirsts(run);
    await settle();
    expect((await Promise.all(answers)).map((answer) => answer.length).sort()).toEqual([1, 3]);
    const later = [send(1, 2, 3, 4), send(5, 6)];
    expect(shapes()).toEqual(
      expect.arrayContaining([
        [1, 4],
        [1, 2],
      ]),
    );
    for (const run of runs()) answerFirsts(run);
    await settle();
    expect(await Promise.all(later)).toEqual([[1], [5]]);
  });

  it('runs requests alone that were grouped to be padded and wait to run again', async () => {
    const { send, runs, shapes } = start({ instances: 2 });
    const held = [send(9), send(9)];
    const answers = [send(1), send(2, 3), send(4, 5, 6), send(7, 8, 9, 1)];
    answerFirsts(runs()[0]!);
    await settle();
    expect(shapes()).toContainEqual([4, 4]);
    runs()
      .find(({ inputs }) => inputs[0]!.shape[0] === 4)!
      .fail(new InferError('INTERNAL', 'one of them is bad'));
    await settle(); // one half runs, the other one waits
    for (let turn = 0; turn < 12; turn += 1) {
      for (const run of runs()) answerFirsts(run);
      await settle();
    }
    expect(await Promise.all([...held, ...answers])).toEqual([[9], [9], [1], [2], [4], [7]]);
  });
});
