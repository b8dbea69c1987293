import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { code, create, values } from '../support/dynamic-batch-kit.ts';
import { floats, floatsOf, settle } from '../support/fake-instance.ts';

describe('requests of a DynamicBatchScheduler end', () => {
  it('settles a cancelled request at once and leaves it out of the batch', async () => {
    const { send, scheduler, clock, instance, stats } = create();
    const gone = send([1]);
    send([2]);
    gone.call.cancel(new InferError('CANCELLED', 'client gone'));
    expect(await code(gone.result)).toBe('CANCELLED');
    expect(scheduler.pending()).toBe(1);
    clock.advance(10);
    expect(instance.batches).toEqual([[2]]);
    expect(stats.failures.CANCELED).toBe(1);
  });

  it('drops a request whose deadline has passed when the batch is formed', async () => {
    const { send, clock, instance } = create();
    const late = send([1], 1, 5);
    send([2]);
    clock.advance(10);
    expect(instance.batches).toEqual([[2]]);
    expect(await code(late.result)).toBe('DEADLINE_EXCEEDED');
  });

  it('ends a request at its deadline while the instance is busy with another', async () => {
    const { send, clock, instance } = create({ maxRows: 1 });
    const running = send([1]);
    const queued = send([2], 1, 100);
    clock.advance(130);
    expect(await code(queued.result)).toBe('DEADLINE_EXCEEDED');
    expect(instance.runs[0]!.stopped).toBe(false);
    instance.runs[0]!.finish();
    expect(await values(running.result)).toEqual([1]);
    await settle();
    expect(instance.runs).toHaveLength(1);
  });

  it('stops a run that nobody waits for any more, and only then', async () => {
    const { send, instance } = create({ maxRows: 2 });
    const first = send([1]);
    const second = send([2]);
    first.call.cancel(new InferError('CANCELLED', 'gone'));
    expect(instance.runs[0]!.stopped).toBe(false);
    second.call.cancel(new InferError('CANCELLED', 'gone'));
    expect(instance.runs[0]!.stopped).toBe(true);
    await settle();
    const next = send([3, 3]);
    instance.runs[1]!.finish();
    expect(await values(next.result)).toEqual([3, 3]);
  });

  it('fails only the guilty request of a batch', async () => {
    const { send, instances, instance } = create({ maxRows: 8 });
    const results = [0, 1, 2, 3, 4, 5, 6, 7].map((value) => send([value]));
    const handled = new Set<object>();
    for (let more = true; more;) {
      more = false;
      for (const run of instances[0]!.runs) {
        if (handled.has(run)) continue;
        handled.add(run);
        more = true;
        if (floatsOf(run.inputs[0]!).includes(5)) run.fail(new InferError('INVALID_ARGUMENT', 'five is bad'));
        else run.finish();
      }
      await settle();
    }
    const codes = await Promise.all(results.map(({ result }) => code(result)));
    expect(codes).toEqual(codes.map((_, index) => (index === 5 ? 'INVALID_ARGUMENT' : 'fulfilled')));
    expect(instance.runs.length).toBeLessThan(16);
    expect(await values(results[4]!.result)).toEqual([4]);
  });

  it('runs requests one by one for good when the outputs do not have a row for each row', async () => {
    const { send, instance } = create({ maxRows: 2 });
    const first = send([1]);
    const second = send([2]);
    instance.runs[0]!.answer([floats('y', [1, 1], [1])]);
    await settle();
    instance.runs[1]!.finish();
    await settle();
    instance.runs[2]!.finish();
    expect(await values(first.result)).toEqual([1]);
    expect(await values(second.result)).toEqual([2]);
    send([3]);
    send([4]);
    expect(instance.batches.slice(1)).toEqual([[1], [2], [3]]);
  });

  describe('when it closes', () => {
    it('runs what waits, refuses what comes, and closes the instances', async () => {
      const { send, scheduler, instance, stats } = create();
      const waiting = send([1]);
      const closed = scheduler.close(1000);
      expect(await code(send([2]).result)).toBe('UNAVAILABLE');
      instance.runs[0]!.finish();
      expect(await values(waiting.result)).toEqual([1]);
      expect(await closed).toBe(true);
      expect(instance.closed).toBe(true);
      expect(stats.releases.drain).toBe(1);
    });

    it('fails what is not done when the grace is over, and stops its run', async () => {
      const { send, scheduler, clock, instance } = create({ maxRows: 1 });
      const running = send([1]);
      const waiting = send([2]);
      const closed = scheduler.close(50);
      clock.advance(50);
      await settle();
      expect(await code(running.result)).toBe('UNAVAILABLE');
      expect(await code(waiting.result)).toBe('UNAVAILABLE');
      expect(instance.runs[0]!.stopped).toBe(true);
      expect(await closed).toBe(true);
      expect(instance.runs).toHaveLength(1);
    });
  });
});
