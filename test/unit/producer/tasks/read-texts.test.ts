import { describe, expect, test } from 'vitest';
import type { ModelProfile } from '../../../../producer/preprocess/model-profile.ts';
import type { Preprocessor } from '../../../../producer/preprocess/preprocessor.ts';
import { readTexts } from '../../../../producer/tasks/read-texts.ts';
import type { TaskCall } from '../../../../producer/tasks/task-call.ts';
import { TaskTimings } from '../../../../producer/tasks/task-timings.ts';
import { InferError } from '../../../../shared/errors.ts';
import { Call } from '../../../../shared/infer/call.ts';
import type { InferFn } from '../../../../shared/infer/ports.ts';
import type { InferRequest } from '../../../../shared/infer/request.ts';
import { modelWithFiles } from '../../../support/text-files-model.ts';

const TIMINGS = { computeInputUs: 0, computeOutputUs: 0, batchSize: 1, executions: 1, release: 'direct' } as const;
const model = modelWithFiles({ inputs: { input_ids: ['INT64', -1] }, outputs: { y: ['FP32', 2] } });

/** One token per letter, its id the letter's code. */
const preprocessor = {
  textsPerRequest: () => Promise.resolve(2),
  texts: (_model: unknown, texts: readonly string[]) => {
    const length = Math.max(...texts.map((text) => text.length));
    const ids = texts.flatMap((text) => Array.from({ length }, (_, i) => BigInt(text.charCodeAt(i) || 0)));
    const data = new Uint8Array(new BigInt64Array(ids).buffer);
    const tensors = [{ name: 'input_ids', datatype: 'INT64' as const, shape: [texts.length, length], data }];
    return Promise.resolve({ tensors, tokens: texts.map((text) => text.length), starts: texts.map(() => 0) });
  },
} as unknown as Preprocessor; // the two methods that are used

function idsOf({ inputs }: InferRequest): number[] {
  return [...new BigInt64Array(new Uint8Array(inputs[0]!.data).buffer)].map(Number);
}

/** Answers each request with one row per text: `rowOf` its ids. */
function answering(rowShape: number[], rowOf: (ids: number[]) => number[]): InferFn {
  return (request) => {
    const [rows, length] = request.inputs[0]!.shape as [number, number];
    const ids = idsOf(request);
    const values = Array.from({ length: rows }, (_, i) => rowOf(ids.slice(i * length, (i + 1) * length))).flat();
    const shape = [rows, ...rowShape.map((dim) => (dim === -1 ? length : dim))];
    return Promise.resolve({
      model: 'm',
      version: '1',
      outputs: [{ name: 'y', datatype: 'FP32', shape, data: new Uint8Array(new Float32Array(values).buffer) }],
      parameters: {},
      timings: { ...TIMINGS, queueUs: 2000, computeInferUs: 3000 },
    });
  };
}

function taskCall(infer: InferFn, changes: Partial<ModelProfile> = {}): TaskCall {
  const output = model.outputs[0]!;
  const profile: ModelProfile = {
    task: 'feature-extraction',
    output,
    labels: [],
    scores: 'detect',
    pooling: undefined,
    ...changes,
  };
  return { preprocessor, infer, model, profile, call: new Call('c', 0, Infinity), timings: new TaskTimings() };
}

describe('readTexts', () => {
  test('splits texts by what fits a request and joins the answers in order', async () => {
    const sizes: number[] = [];
    const infer = answering([2], ([first]) => [first!, 1]);
    const task = taskCall((request, call) => {
      sizes.push(request.inputs[0]!.shape[0]!);
      return infer(request, call);
    });
    const texts = 'a b c d e f g h i j k'.split(' ');
    const results = await readTexts(task, texts);
    expect(results.map(({ vectors }) => String.fromCharCode(vectors[0] as number))).toEqual(texts);
    expect(sizes.sort()).toEqual([1, 2, 2, 2, 2, 2]);
    expect(task.timings.toHeader(10)).toMatch(
      /^preprocess;dur=[\d.]+, queue;dur=2.00, compute;dur=3.00, total;dur=10.00$/,
    );
  });

  test('gives a vector per token without those of the padding', async () => {
    const task = taskCall(answering([-1, 2], (ids) => ids.flatMap((id) => [id, -id])));
    const [short, long] = await readTexts(task, ['a', 'bcd']);
    expect(short!.vectors).toEqual([Float32Array.of(97, -97)]);
    expect(long!.vectors).toHaveLength(3);
    expect(long!.tokens).toBe(3);
  });

  test('pools tokens as the files say', async () => {
    const infer = answering([-1, 2], (ids) => ids.flatMap((id) => [id, 0]));
    const mean = taskCall(infer, { pooling: { mode: 'mean', normalize: false } });
    expect((await readTexts(mean, ['ac', 'a']))[0]!.vectors).toEqual(Float32Array.of(98, 0));
    const cls = taskCall(infer, { pooling: { mode: 'cls', normalize: true } });
    expect((await readTexts(cls, ['ac']))[0]!.vectors).toEqual(Float32Array.of(1, 0));
  });

  test('a request that fails ends the call for the others', async () => {
    let requests = 0;
    const failure = new InferError('INVALID_ARGUMENT', 'no');
    const task = taskCall(() => {
      requests++;
      return Promise.reject(failure);
    });
    await expect(readTexts(task, new Array<string>(100).fill('a'))).rejects.toBe(failure);
    expect(task.call.error).toBe(failure);
    expect(requests).toBeLessThanOrEqual(4);
  });

  test('an answer with another number of rows is a fault of the model', async () => {
    const infer = answering([2], () => [1, 2]);
    const task = taskCall(async (request, call) => {
      const response = await infer(request, call);
      const [output] = response.outputs;
      return { ...response, outputs: [{ ...output!, shape: [1, 4] }] };
    });
    await expect(readTexts(task, ['a', 'b'])).rejects.toMatchObject({ code: 'INTERNAL' });
  });
});
