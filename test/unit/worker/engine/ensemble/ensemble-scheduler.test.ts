import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { ensembleConfig, io, step } from '../../../shared/model/ensembles.ts';
import { floats, settle } from '../support/fake-instance.ts';
import { BATCHING, CHAIN, chain, HEAD, input } from './chain.ts';
import { errorOf, FakeMember, startEnsemble } from './kit.ts';

const TWO_INPUTS = `max_batch_size: 8 ${io('input', 'l', [2])} ${io('input', 'r', [2])} ${io('output', 'y', [2])}`;
const DIAMOND = ensembleConfig(
  HEAD,
  step('join', { l: 'LEFT', r: 'RIGHT' }, { y: 'OUT' }),
  step('a', { x: 'IN' }, { y: 'LEFT' }),
  step('b', { x: 'IN' }, { y: 'RIGHT' }),
);

async function diamond() {
  const [a, b, join] = [
    new FakeMember('a', BATCHING),
    new FakeMember('b', BATCHING),
    new FakeMember('join', TWO_INPUTS),
  ];
  return { a, b, join, ...(await startEnsemble(DIAMOND, [a, b, join])) };
}

describe('a request of an ensemble', () => {
  it('goes from step to step without a copy of its tensors', async () => {
    const { a, b, infer } = await chain();
    const given = input();
    const { result } = infer([given], { id: 'r1', parameters: { depth: 3 }, priority: 2 });
    expect(b.held).toHaveLength(0);
    expect(a.last.request).toMatchObject({
      id: 'r1',
      model: 'a',
      version: '1',
      outputs: ['y'],
      parameters: { depth: 3 },
    });
    expect(a.last.request.inputs).toEqual([{ ...given, name: 'x' }]);
    expect(a.last.request.inputs[0]!.data).toBe(given.data);
    expect(a.last.call.priority).toBe(2);

    const middle = floats('y', [1, 2], [3, 4]);
    a.last.answer([middle]);
    await settle();
    expect(b.last.request.inputs[0]).toMatchObject({ name: 'x', shape: [1, 2] });
    expect(b.last.request.inputs[0]!.data).toBe(middle.data);

    const end = floats('y', [1, 2], [5, 6]);
    b.last.answer([end]);
    const response = await result;
    expect(response).toMatchObject({ model: 'ens', version: '1', outputs: [{ name: 'OUT', shape: [1, 2] }] });
    expect(response.outputs[0]!.data).toBe(end.data);
  });

  it('starts independent steps at once, and a step when the last of its inputs is there', async () => {
    const { a, b, join, infer } = await diamond();
    const { result } = infer([input()]);
    expect([a.held.length, b.held.length, join.held.length]).toEqual([1, 1, 0]);
    b.last.answer([floats('y', [1, 2], [3, 4])]);
    await settle();
    expect(join.held).toHaveLength(0);
    a.last.answer([floats('y', [1, 2], [1, 2])]);
    await settle();
    expect(join.last.request.inputs.map(({ name }) => name)).toEqual(['l', 'r']);
    join.last.answer([floats('y', [1, 2], [4, 6])]);
    expect((await result).outputs).toHaveLength(1);
  });

  it('runs only the steps that the outputs asked for need, and asks for no more than is needed', async () => {
    const config = ensembleConfig(
      `${HEAD} ${io('output', 'MIDDLE', [2])}`,
      step('a', { x: 'IN' }, { y: 'MIDDLE' }),
      step('b', { x: 'MIDDLE' }, { y: 'OUT' }),
    );
    const [a, b] = [new FakeMember('a', BATCHING), new FakeMember('b', BATCHING)];
    const { infer } = await startEnsemble(config, [a, b]);
    const { result } = infer([input()], { outputs: ['MIDDLE'] });
    a.last.answer([floats('y', [1, 2], [3, 4])]);
    expect((await result).outputs.map(({ name }) => name)).toEqual(['MIDDLE']);
    expect(b.held).toHaveLength(0);

    const both = infer([input()], { outputs: ['MIDDLE', 'OUT'] });
    a.last.answer([floats('y', [1, 2], [3, 4])]);
    await settle();
    b.last.answer([floats('y', [1, 2], [3, 4])]);
    expect((await both.result).outputs.map(({ name }) => name)).toEqual(['OUT', 'MIDDLE']);
  });

  it('counts as one execution, with the times of its steps added up', async () => {
    const { a, b, infer, served } = await chain();
    const { result } = infer([floats('IN', [3, 2], [1, 2, 3, 4, 5, 6])]);
    a.last.answer([floats('y', [3, 2], [1, 2, 3, 4, 5, 6])], { queueUs: 5, batchSize: 8, executions: 0 });
    await settle();
    b.last.answer([floats('y', [3, 2], [1, 2, 3, 4, 5, 6])], { queueUs: 7 });
    expect((await result).timings).toEqual({
      queueUs: 12,
      computeInputUs: 20,
      computeInferUs: 200,
      computeOutputUs: 2000,
      batchSize: 3,
      executions: 1,
      release: 'direct',
    });
    const { success, inferenceCount, executionCount, queue, fail } = served.stats;
    expect([success.count, inferenceCount, executionCount, queue.ns, fail.count]).toEqual([1, 3, 1, 12_000, 0]);
  });

  it('is checked against the ensemble before a step runs, and counts nowhere when it does not fit', async () => {
    const { a, infer, served } = await chain();
    const error = await errorOf(infer([floats('IN', [1, 3], [1, 2, 3])]).result);
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(error.message).toContain('model ens, input IN: expected shape [-1,2], got [1,3]');
    expect(a.held).toHaveLength(0);
    expect(served.stats.fail.count).toBe(0);
  });

  it('leaves out an optional input that the client left out', async () => {
    const optional = 'optional: true data_type: TYPE_FP32';
    const config = ensembleConfig(
      `${HEAD} ${io('input', 'MASK', [2], optional)}`,
      step('a', { x: 'IN', mask: 'MASK' }, { y: 'OUT' }),
    );
    const a = new FakeMember('a', `${BATCHING} ${io('input', 'mask', [2], optional)}`);
    const { infer } = await startEnsemble(config, [a]);
    infer([input()]);
    expect(a.last.request.inputs.map(({ name }) => name)).toEqual(['x']);
    infer([floats('MASK', [1, 2], [1, 0]), input()]);
    expect(a.last.request.inputs.map(({ name }) => name)).toEqual(['x', 'mask']);
  });

  it('is refused when as many as allowed are under way', async () => {
    const { infer } = await chain(2);
    infer([input()]);
    infer([input()]);
    expect(await errorOf(infer([input()]).result)).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
  });

  it('has started when its first step has', async () => {
    const { a, infer } = await chain();
    const { call } = infer([input()]);
    expect(call.started).toBe(false);
    a.last.call.started = true;
    expect(call.started).toBe(true);
  });
});

describe('tensors between models with and without a batch dimension', () => {
  const plain = (dims: readonly number[]) => `${io('input', 'x', dims)} ${io('output', 'y', dims)}`;

  it('get a 1 in front or lose it', async () => {
    const [a, b] = [new FakeMember('a', plain([2])), new FakeMember('b', BATCHING)];
    const { infer } = await startEnsemble(CHAIN, [a, b]);
    const { result } = infer([input()]);
    expect(a.last.request.inputs[0]!.shape).toEqual([2]);
    a.last.answer([floats('y', [2], [3, 4])]);
    await settle();
    expect(b.last.request.inputs[0]!.shape).toEqual([1, 2]);
    b.last.answer([floats('y', [1, 2], [3, 4])]);
    expect((await result).outputs[0]!.shape).toEqual([1, 2]);
  });

  it('stay as they are where the model takes all rows at once', async () => {
    const [a, b] = [new FakeMember('a', plain([-1, 2])), new FakeMember('b', BATCHING)];
    const { infer } = await startEnsemble(CHAIN, [a, b]);
    const { result } = infer([floats('IN', [2, 2], [1, 2, 3, 4])]);
    expect(a.last.request.inputs[0]!.shape).toEqual([2, 2]);
    a.last.answer([floats('y', [2, 2], [1, 2, 3, 4])]);
    await settle();
    b.last.answer([floats('y', [2, 2], [1, 2, 3, 4])]);
    expect((await result).outputs[0]!.shape).toEqual([2, 2]);
  });

  it('are refused with step and tensor when there are several rows for a model that takes one', async () => {
    const [a, b] = [new FakeMember('a', BATCHING), new FakeMember('b', plain([2]))];
    const { infer } = await startEnsemble(CHAIN, [a, b]);
    const { result } = infer([floats('IN', [3, 2], [1, 2, 3, 4, 5, 6])]);
    a.last.answer([floats('y', [3, 2], [1, 2, 3, 4, 5, 6])]);
    const error = await errorOf(result);
    expect(error.code).toBe('INVALID_ARGUMENT');
    expect(error.message).toBe(
      "ensemble 'ens', step 2 (model 'b', version 1): tensor x: expected one row, as there is no batch dimension here (shape [2]), got shape [3,2] (in this step x is tensor 'MIDDLE' [3,2])",
    );
    expect(b.held).toHaveLength(0);
  });

  it('may have no rows: a batching model is not asked then, and says nothing for nothing (G07)', async () => {
    const config = ensembleConfig(
      `${io('input', 'IN', [-1, 2])} ${io('output', 'OUT', [-1, 3, -1])}`,
      step('a', { x: 'IN' }, { y: 'FOUND' }),
      step('b', { x: 'FOUND' }, { y: 'OUT' }),
    );
    const a = new FakeMember('a', plain([-1, 2]));
    const b = new FakeMember('b', `max_batch_size: 8 ${io('input', 'x', [2])} ${io('output', 'y', [3, -1])}`);
    const { infer, served } = await startEnsemble(config, [a, b]);
    const { result } = infer([floats('IN', [1, 2], [1, 2])]);
    a.last.answer([floats('y', [0, 2], [])]);
    const [out] = (await result).outputs;
    expect(out).toMatchObject({ name: 'OUT', datatype: 'FP32', shape: [0, 3, 0] });
    expect(out!.data).toHaveLength(0);
    expect(b.held).toHaveLength(0);
    expect(a.pins).toBe(0);
    expect(served.stats.success.count).toBe(1);
  });

  it('fail as an internal error when they are not what the ensemble promises', async () => {
    const { infer, a, b } = await chain();
    const { result } = infer([input()]);
    a.last.answer([floats('y', [1, 2], [3, 4])]);
    await settle();
    b.last.answer([floats('y', [1, 3], [3, 4, 5])]);
    const error = await errorOf(result);
    expect(error.code).toBe('INTERNAL');
    expect(error.message).toBe("ensemble 'ens', output OUT: expected shape [-1,2], the step has given [1,3]");
  });
});

describe('a step that fails', () => {
  it('fails the request with its own code and all that tells which step it was (G03)', async () => {
    const { a, b, infer, served } = await chain();
    const { result } = infer([input()]);
    a.last.answer([floats('y', [1, 2], [3, 4])]);
    await settle();
    b.last.fail(new InferError('UNAVAILABLE', 'the GPU fell asleep'));
    const error = await errorOf(result);
    expect(error.code).toBe('UNAVAILABLE');
    expect(error.message).toBe("ensemble 'ens', step 2 (model 'b', version 1): the GPU fell asleep");
    expect(served.stats.fail.count).toBe(1);
    expect([a.pins, b.pins]).toEqual([0, 0]);
  });

  it('says which tensors the step got when it did not like them', async () => {
    const { a, b, infer } = await chain();
    const { result } = infer([input()]);
    a.last.answer([floats('y', [1, 2], [3, 4])]);
    await settle();
    b.last.fail(new InferError('INVALID_ARGUMENT', 'model b, input x: index out of range'));
    expect((await errorOf(result)).message).toBe(
      "ensemble 'ens', step 2 (model 'b', version 1): model b, input x: index out of range (in this step x is tensor 'MIDDLE' [1,2])",
    );
  });

  it('cancels what is in flight beside it, and keeps what waits from starting', async () => {
    const { a, b, join, infer, served } = await diamond();
    const { result } = infer([input()]);
    a.last.fail(new InferError('INTERNAL', 'it broke'));
    const error = await errorOf(result);
    expect(error.message).toBe("ensemble 'ens', step 2 (model 'a', version 1): it broke");
    expect(b.last.call.error?.code).toBe('CANCELLED');
    expect(join.held).toHaveLength(0);
    expect(served.stats.fail.count).toBe(1);
    expect([a.pins, b.pins, join.pins]).toEqual([0, 0, 0]);
  });

  it('counts as rejected when the member had no room', async () => {
    const { a, infer, served } = await chain();
    const { result } = infer([input()]);
    a.last.fail(new InferError('UNAVAILABLE', 'Exceeds maximum queue size', { refusedAt: 'entry' }));
    expect((await errorOf(result)).code).toBe('UNAVAILABLE');
    expect(served.stats.failures.REJECTED).toBe(1);
  });

  it('gives a missing output as an internal error of the step', async () => {
    const { a, infer } = await chain();
    const { result } = infer([input()]);
    a.last.answer([]);
    expect(await errorOf(result)).toMatchObject({
      code: 'INTERNAL',
      message: "ensemble 'ens', step 1 (model 'a', version 1): the model gave no output y",
    });
  });
});

describe('the end of a call', () => {
  it('cancels the steps in flight', async () => {
    const { a, b, join, infer, served } = await diamond();
    const { call, result } = infer([input()]);
    call.cancel(new InferError('CANCELLED', 'the client left'));
    expect((await errorOf(result)).message).toBe('the client left');
    await settle();
    expect(a.last.call.error?.code).toBe('CANCELLED');
    expect(b.last.call.error?.code).toBe('CANCELLED');
    expect([a.pins, b.pins, join.pins]).toEqual([0, 0, 0]);
    expect(served.stats.failures.CANCELED).toBe(1);
  });

  it('comes with the deadline, which the steps share', async () => {
    const { a, infer, clock } = await chain();
    const { call, result } = infer([input()], { timeoutMs: 100 });
    expect(a.last.call.deadlineMs).toBe(call.deadlineMs);
    clock.advance(150);
    expect(await errorOf(result)).toMatchObject({
      code: 'DEADLINE_EXCEEDED',
      message: 'deadline exceeded: no result within 100 ms',
    });
    expect(a.last.call.error?.code).toBe('CANCELLED');
  });

  it('is told in the time of the whole request when a step notices it first', async () => {
    const { a, infer } = await chain();
    const { result } = infer([input()], { timeoutMs: 100 });
    a.last.fail(new InferError('DEADLINE_EXCEEDED', 'deadline exceeded: not started within 3 ms'));
    expect((await errorOf(result)).message).toBe(
      "ensemble 'ens', step 1 (model 'a', version 1): deadline exceeded: no result within 100 ms",
    );
  });
});
