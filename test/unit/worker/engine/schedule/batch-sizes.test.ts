import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import type { InferRequest } from '../../../../../shared/infer/request.ts';
import type { GroupView, WaitingView } from '../../../../../worker/engine/schedule/batch-policy.ts';
import { countForSize, filledRows, powersUpTo } from '../../../../../worker/engine/schedule/batch-sizes.ts';
import { DirectScheduler } from '../../../../../worker/engine/schedule/direct-scheduler.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { floats, floatsOf, type HeldRun, settle } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

const SIZES = [1, 2, 4, 8, 16];

function groupOf(rows: readonly number[]): GroupView {
  const head = rows.reduceRight<WaitingView | undefined>((next, each) => ({ rows: each, next }), undefined);
  return { head, oldestMs: 0, rows: rows.reduce((sum, each) => sum + each, 0) };
}

describe('the rows of a run', () => {
  it('are powers of two and the maximum, filled up to the next of them', () => {
    expect(powersUpTo(1)).toEqual([1]);
    expect(powersUpTo(8)).toEqual([1, 2, 4, 8]);
    expect(powersUpTo(12)).toEqual([1, 2, 4, 8, 12]);
    expect([1, 3, 8, 9, 17].map((rows) => filledRows(rows, SIZES))).toEqual([1, 4, 8, 16, 17]);
  });

  it.each([
    [13, 13], // as 16
    [12, 12], // as 16
    [11, 8],
    [9, 8],
    [7, 7], // as 8
    [6, 6], // as 8
    [5, 4],
    [3, 3], // as 4
    [2, 2],
    [1, 1],
  ])('are, of %i single ones, those of the first %i', (waiting, run) => {
    expect(countForSize(groupOf(Array<number>(waiting).fill(1)), waiting, SIZES)).toBe(run);
  });

  it('are those that waste the least where requests of several rows allow no better', () => {
    expect(countForSize(groupOf([5]), 1, SIZES)).toBe(1);
    expect(countForSize(groupOf([5, 5]), 2, SIZES)).toBe(2); // 16 for 10 is less than 8 for 5
    expect(countForSize(groupOf([5, 3, 5]), 3, SIZES)).toBe(3); // 16 for 13
    expect(countForSize(groupOf([5, 3, 1]), 3, SIZES)).toBe(2); // 8 for 8
  });
});

describe('a model whose runs have few sizes', () => {
  function start(options: { datatype?: 'FP32' | 'BYTES'; direct?: boolean } = {}) {
    const { datatype = 'FP32', direct = false } = options;
    const inputs = [tensorPlan('x', datatype, [-1, -1])];
    const outputs = [tensorPlan('y', datatype, [-1, -1])];
    const warned: string[] = [];
    const kit = schedulerParts({ plan: modelPlan({ maxRows: 16, inputs, outputs }) });
    const logger = { ...kit.logger, warn: (_fields: object, event: string) => warned.push(event) };
    const parts = { ...kit, logger, sizes: SIZES };
    const scheduler = direct
      ? new DirectScheduler(parts)
      : new DynamicBatchScheduler(parts, { maxRows: 16, preferredRows: [], delayMs: 0 });
    const [instance] = kit.instances;
    const sendRequest = (asked: InferRequest) => scheduler.enqueue(asked, callAt(kit.clock));
    const send = (values: readonly number[]) => {
      const answer = sendRequest(request(values)).then(({ outputs: [y], timings }) => [
        timings.batchSize,
        ...floatsOf(y!),
      ]);
      answer.catch(() => {}); // the tests look at it later
      return answer;
    };
    const answerAll = async (answer = (run: HeldRun) => run.finish()) => {
      for (let done = 0; done < instance!.runs.length; done += 1) {
        answer(instance!.runs[done]!);
        await settle();
      }
    };
    return { ...kit, instance: instance!, send, sendRequest, answerAll, warned };
  }

  it('fills runs up with its first row, cuts those that would be filled too much, and gives each its own', async () => {
    const { send, answerAll, instance } = start();
    const answers = [send([1]), ...[2, 3, 4, 5, 6].map((value) => send([value]))];
    answers.push(send([7, 8, 9]));
    await answerAll();
    expect(instance.batches).toEqual([[1], [2, 3, 4, 5, 6, 7, 8, 9]]);
    expect(await Promise.all(answers)).toEqual([
      [1, 1],
      [8, 2],
      [8, 3],
      [8, 4],
      [8, 5],
      [8, 6],
      [8, 7, 8, 9],
    ]);
    const three = send([1, 2, 3]);
    await answerAll();
    expect(instance.batches.at(-1)).toEqual([1, 2, 3, 1]);
    expect(await three).toEqual([4, 1, 2, 3]);
  });

  it('does so for requests that are not merged', async () => {
    const { send, answerAll, instance } = start({ direct: true });
    const five = send([1, 2, 3, 4, 5]);
    await answerAll();
    expect(instance.batches).toEqual([[1, 2, 3, 4, 5, 1, 1, 1]]);
    expect(await five).toEqual([8, 1, 2, 3, 4, 5]);
  });

  it('fills up texts', async () => {
    const { sendRequest, answerAll, instance } = start({ datatype: 'BYTES' });
    const data = Buffer.from([1, 0, 0, 0, 97, 2, 0, 0, 0, 98, 98, 0, 0, 0, 0]);
    const inputs = [{ name: 'x', datatype: 'BYTES' as const, shape: [3, 1], data }];
    const answer = sendRequest({ ...request([1]), inputs });
    await answerAll();
    const [filled] = instance.runs[0]!.inputs;
    expect(filled!.shape).toEqual([4, 1]);
    expect([...filled!.data]).toEqual([...data, ...data.subarray(0, 5)]);
    const [own] = (await answer).outputs;
    expect(own!.shape).toEqual([3, 1]);
    expect([...own!.data]).toEqual([...data]);
  });

  it('is not filled up any more once its rows cannot be told apart, and the request runs again', async () => {
    const { send, answerAll, instance, warned } = start();
    const answer = send([1, 2, 3]);
    const reject = (run: HeldRun) => {
      const rows = run.inputs[0]!.shape[0]!;
      run.answer([rows === 4 ? floats('y', [1, 1], [0]) : { ...run.inputs[0]!, name: 'y' }]);
    };
    await answerAll(reject);
    expect(await answer).toEqual([3, 1, 2, 3]);
    expect(instance.batches).toEqual([
      [1, 2, 3, 1],
      [1, 2, 3],
    ]);
    expect(warned).toEqual(['model cannot batch, runs are not filled up and requests run alone']);
  });

  it('is tried as it is when it finds no memory filled up, and not filled up any more for a while', async () => {
    const { send, answerAll, instance } = start();
    const full = new InferError('RESOURCE_EXHAUSTED', 'GPU memory exhausted');
    const answer = (run: HeldRun) => {
      if (run.inputs[0]!.shape[0]! > 14) run.fail(full);
      else run.finish();
    };
    const alone = send(Array<number>(13).fill(1));
    await answerAll(answer);
    expect((await alone)[0]).toBe(13);
    expect(instance.batches.map(({ length }) => length)).toEqual([16, 13]);
    const next = send(Array<number>(7).fill(1));
    await answerAll(answer);
    expect((await next)[0]).toBe(7);
    expect(instance.batches.map(({ length }) => length)).toEqual([16, 13, 7]);
  });

  it('is not filled up where not even two rows found memory', async () => {
    const { instances, ...parts } = schedulerParts({ plan: modelPlan({ maxRows: 2 }) });
    const limits = { maxRows: 2, preferredRows: [], delayMs: 0 };
    const scheduler = new DynamicBatchScheduler({ ...parts, instances, sizes: [2] }, limits);
    const [instance] = instances;
    let done = 0;
    const ask = async () => {
      const answer = scheduler.enqueue(request([1]), callAt(parts.clock));
      for (let run: HeldRun | undefined; (run = instance!.runs[done]); done += 1) {
        if (run.inputs[0]!.shape[0] === 2) run.fail(new InferError('RESOURCE_EXHAUSTED', 'GPU memory exhausted'));
        else run.finish();
        await settle();
      }
      return (await answer).timings.batchSize;
    };
    expect([await ask(), await ask()]).toEqual([1, 1]);
    expect(instance!.batches.map(({ length }) => length)).toEqual([2, 1, 1]);
  });

  it('takes a failed run apart as ever', async () => {
    const { send, answerAll, instance } = start();
    const answers = [send([0]), send([1]), send([2]), send([13])];
    const guilty = (run: HeldRun) =>
      floatsOf(run.inputs[0]!).includes(13) ? run.fail(new InferError('INTERNAL', 'no')) : run.finish();
    await answerAll(guilty);
    const ends = await Promise.allSettled(answers);
    expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected']);
    expect(instance.batches).toEqual([[0], [1, 2, 13, 1], [1, 2], [13]]);
  });
});
