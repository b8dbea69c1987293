import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { NotServed } from '../../../../../shared/infer/not-served.ts';
import { checkMembers } from '../../../../../worker/engine/ensemble/load-ensemble.ts';
import { ensembleConfig, step } from '../../../shared/model/ensembles.ts';
import { floats, settle } from '../support/fake-instance.ts';
import { BATCHING, CHAIN, chain, HEAD, input } from './chain.ts';
import { errorOf, FakeMember, startEnsemble } from './kit.ts';

describe('max_inflight_requests', () => {
  const limited = async () => {
    const text = `max_inflight_requests: 1 ${step('a', { x: 'IN' }, { y: 'MIDDLE' })}`;
    const config = ensembleConfig(HEAD, text, step('b', { x: 'MIDDLE' }, { y: 'OUT' }));
    const [a, b] = [new FakeMember('a', BATCHING), new FakeMember('b', BATCHING)];
    return { a, b, ...(await startEnsemble(config, [a, b])) };
  };
  const answer = floats('y', [1, 2], [1, 2]);

  it('bounds the requests at each step, and lets the others through in their order', async () => {
    const { a, b, infer, served } = await limited();
    const results = ['1', '2', '3'].map((id) => infer([input()], { id }).result);
    expect(a.held.map(({ request }) => request.id)).toEqual(['1']);
    expect(served.scheduler.pending()).toBe(2);
    a.last.answer([answer]);
    await settle();
    expect(a.held.map(({ request }) => request.id)).toEqual(['1', '2']);
    expect(b.held.map(({ request }) => request.id)).toEqual(['1']); // the steps have a bound each
    a.last.answer([answer]);
    await settle();
    expect(b.held).toHaveLength(1);
    for (let i = 0; i < 3; i += 1) {
      a.last.answer([answer]);
      b.last.answer([answer]);
      await settle();
    }
    expect(await Promise.all(results)).toHaveLength(3);
    expect(served.scheduler.pending()).toBe(0);
  });

  it('does not wait for those that are gone', async () => {
    const { a, infer, served } = await limited();
    infer([input()], { id: '1' });
    const gone = infer([input()], { id: '2' });
    infer([input()], { id: '3' });
    gone.call.cancel(new InferError('CANCELLED', 'the client left'));
    expect(served.scheduler.pending()).toBe(1);
    a.last.fail(new InferError('INTERNAL', 'it broke'));
    await settle();
    expect(a.last.request.id).toBe('3');
  });
});

describe('members that change', () => {
  it('are pinned all at once for as long as a request is under way, and the next request meets the new ones (G06)', async () => {
    const { a, b, infer, members } = await chain();
    const first = infer([input()]);
    expect([a.pins, b.pins]).toEqual([1, 1]);
    const newer = new FakeMember('b', BATCHING, { version: '2' });
    members.set('b', newer);
    const second = infer([input()]);
    expect([a.pins, b.pins, newer.pins]).toEqual([2, 1, 1]);
    for (const held of a.held) held.answer([floats('y', [1, 2], [3, 4])]);
    await settle();
    expect(b.held).toHaveLength(1);
    expect(newer.held.map(({ request }) => request.version)).toEqual(['2']);
    b.last.answer([floats('y', [1, 2], [3, 4])]);
    await first.result;
    expect([a.pins, b.pins, newer.pins]).toEqual([1, 0, 1]);
    newer.last.answer([floats('y', [1, 2], [3, 4])]);
    await second.result;
    expect([a.pins, newer.pins]).toEqual([0, 0]);
  });

  it('are told as not served when they are not there any more', async () => {
    const { members, infer, served } = await chain();
    members.delete('b');
    const error = await errorOf(infer([input()]).result);
    expect(error).toBeInstanceOf(NotServed);
    expect(error.message).toBe("ensemble 'ens', step 2 (model 'b'): Request for unknown model: 'b' is not found");
    const { config } = served.ready;
    expect(checkMembers(config, { find: (name) => members.get(name) ?? missing(name) })).toEqual([
      "ensemble 'ens', step 2 (model 'b'): model 'b' is not there",
    ]);
  });

  it('are refused when they do not fit any more, and welcome again when they do', async () => {
    const { b, members, infer, served } = await chain();
    members.set('b', new FakeMember('b', BATCHING.replaceAll('[ 2 ]', '[ 3 ]')));
    const misfits = [
      'step 2, model "b", input "x": expected shape [-1,3], but tensor "MIDDLE" is [-1,2] from step 1, model "a", output "y"',
      'output "OUT" of the ensemble: expected shape [-1,2], but tensor "OUT" is [-1,3] from step 2, model "b", output "y"',
    ];
    const error = await errorOf(infer([input()]).result);
    expect(error.code).toBe('UNAVAILABLE');
    expect(error.message).toBe(`ensemble 'ens' does not fit its members any more: ${misfits.join('; ')}`);
    const source = { find: (name: string) => members.get(name) ?? missing(name) };
    expect(checkMembers(served.ready.config, source)).toEqual(misfits);

    members.set('b', b);
    infer([input()]);
    expect(checkMembers(served.ready.config, source)).toEqual([]);
    expect(b.pins).toBe(1);
  });

  it('give their labels to outputs without a label file', async () => {
    const labelled = BATCHING.replace('output {', 'output { label_filename: "labels.txt"');
    const members = [new FakeMember('a', BATCHING), new FakeMember('b', labelled, { labels: ['cat', 'dog'] })];
    const { served } = await startEnsemble(CHAIN, members);
    expect(served.ready.outputs[0]!.labels).toEqual(['cat', 'dog']);
  });
});

describe('an ensemble that is closed', () => {
  it('answers what is under way and takes nothing more', async () => {
    const { a, b, infer, served } = await chain();
    const { result } = infer([input()]);
    const closed = served.close(1000);
    await settle();
    expect(await errorOf(infer([input()]).result)).toMatchObject({ code: 'UNAVAILABLE' });
    a.last.answer([floats('y', [1, 2], [3, 4])]);
    await settle();
    b.last.answer([floats('y', [1, 2], [3, 4])]);
    await result;
    await closed;
  });

  it('fails what is still under way when the grace is over', async () => {
    const { a, infer, served, clock } = await chain();
    const { result } = infer([input()]);
    const closed = served.close(1000);
    await settle();
    clock.advance(1001);
    expect((await errorOf(result)).message).toBe("model 'ens' was unloaded before the request was answered");
    await closed;
    expect(a.pins).toBe(0);
  });
});

function missing(name: string): never {
  throw new InferError('NOT_FOUND', `model '${name}' is not there`);
}
