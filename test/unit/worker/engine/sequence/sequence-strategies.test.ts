import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { settle } from '../support/fake-instance.ts';
import { answerAll, answerSums, createBench, IDLE_MS, STATE } from './kit.ts';

describe('SequenceScheduler, with either strategy', () => {
  describe.each([
    ['direct', `direct { } ${STATE}`],
    ['oldest', `oldest { max_candidate_sequences: 4 } ${STATE}`],
  ])('(%s)', (_, batching) => {
    it('gives a place to the longest waiting sequence when one ends', async () => {
      const bench = await createBench(batching, { maxBatchSize: 4 });
      for (const id of [1, 2, 3, 4, 5, 6]) bench.send(id, id, 'start');
      bench.send(5, 50);
      await answerAll(bench);
      expect(bench.rows().flat().sort()).toEqual([1, 2, 3, 4]);
      const last = bench.send(2, 20, 'end');
      await answerAll(bench);
      expect(await last.result).toBe(22);
      expect(bench.rows().flat().slice(-3)).toEqual([20, 5, 50]);
    });

    it('ends a sequence after its idle time, and not while it has requests', async () => {
      const bench = await createBench(batching);
      bench.send(1, 1, 'start');
      bench.parts.clock.advance(3 * IDLE_MS);
      answerSums(bench.runs[0]!);
      await settle();
      bench.parts.clock.advance(IDLE_MS - 1);
      const second = bench.send(1, 1);
      answerSums(bench.runs[1]!);
      expect(await second.result).toBe(2);
      bench.parts.clock.advance(IDLE_MS);
      expect(bench.scheduler.sequences()).toBe(0);
      expect(await bench.send(1, 1).result).toBe('INVALID_ARGUMENT');
    });

    it('gives the place of a silent sequence to one that waits', async () => {
      const bench = await createBench(batching, { maxBatchSize: 4 });
      for (const id of [1, 2, 3, 4, 5]) bench.send(id, id, 'start');
      await answerAll(bench);
      expect(bench.scheduler.pending()).toBe(1);
      bench.parts.clock.advance(IDLE_MS);
      await answerAll(bench);
      expect(bench.scheduler.pending()).toBe(0);
      expect(bench.scheduler.sequences()).toBe(1);
    });

    it('begins anew with a START in the middle, at the same place', async () => {
      const bench = await createBench(batching);
      bench.send(1, 1, 'start');
      const sent = [bench.send(1, 2), bench.send(1, 10, 'start'), bench.send(1, 1, 'end'), bench.send(1, 5, 'start')];
      await answerAll(bench);
      expect(await Promise.all(sent.map(({ result }) => result))).toEqual([3, 10, 11, 5]);
      expect(bench.scheduler.sequences()).toBe(1);
    });

    it('goes on from where it was after a request that failed', async () => {
      const bench = await createBench(batching);
      bench.send(1, 1, 'start');
      answerSums(bench.runs[0]!);
      await settle();
      const bad = bench.send(1, 100);
      const next = bench.send(1, 1);
      bench.runs[1]!.fail(new InferError('INTERNAL', 'broken'));
      await settle();
      await answerAll(bench);
      expect([await bad.result, await next.result]).toEqual(['INTERNAL', 2]);
    });

    it('is lost with a START that failed, up to the next START', async () => {
      const bench = await createBench(batching);
      const sent = [bench.send(1, 1, 'start'), bench.send(1, 1), bench.send(1, 7, 'start'), bench.send(1, 1)];
      bench.runs[0]!.fail(new InferError('INTERNAL', 'broken'));
      await settle();
      await answerAll(bench);
      expect(await Promise.all(sent.map(({ result }) => result))).toEqual(['INTERNAL', 'UNAVAILABLE', 7, 8]);
      expect(await sent[1]!.text).toContain(
        "sequence 1 of model 'm' was lost: its request with the START flag failed: broken",
      );
    });

    it('ends with a START that failed when nothing begins it anew', async () => {
      const bench = await createBench(batching);
      const sent = [bench.send(1, 1, 'start'), bench.send(1, 1)];
      bench.runs[0]!.fail(new InferError('INTERNAL', 'broken'));
      await settle();
      expect(await Promise.all(sent.map(({ result }) => result))).toEqual(['INTERNAL', 'UNAVAILABLE']);
      expect(bench.scheduler.sequences()).toBe(0);
      expect(await bench.send(1, 1).result).toBe('INVALID_ARGUMENT');
    });

    it('leaves out a request that its caller gave up before it ran', async () => {
      const bench = await createBench(batching);
      bench.send(1, 1, 'start');
      const [gone, next] = [bench.send(1, 100), bench.send(1, 1)];
      gone.call.cancel(new InferError('CANCELLED', 'gone'));
      await answerAll(bench);
      expect([await gone.result, await next.result]).toEqual(['CANCELLED', 2]);
    });

    it('counts a request that its caller gave up while it ran with others', async () => {
      const bench = await createBench(batching);
      bench.send(9, 1, 'start');
      const gone = bench.send(1, 1, 'start');
      const other = bench.send(2, 1, 'start');
      answerSums(bench.runs[0]!);
      await settle();
      gone.call.cancel(new InferError('CANCELLED', 'gone'));
      expect(bench.runs[1]!.stopped).toBe(false);
      await answerAll(bench);
      expect([await gone.result, await other.result]).toEqual(['CANCELLED', 1]);
      const next = bench.send(1, 1);
      await answerAll(bench);
      expect(await next.result).toBe(2);
    });

    it('frees the place of a sequence whose END was given up', async () => {
      const bench = await createBench(batching);
      bench.send(1, 1, 'start');
      const last = bench.send(1, 1, 'end');
      last.call.cancel(new InferError('CANCELLED', 'gone'));
      await answerAll(bench);
      expect(bench.scheduler.sequences()).toBe(0);
    });

    it('are lost aloud when their model is loaded anew, and begin anew', async () => {
      const bench = await createBench(batching);
      bench.send(1, 1, 'start');
      bench.send(2, 1, 'start');
      bench.send(3, 1, 'both');
      await answerAll(bench);
      const [inHand] = [bench.send(2, 1)];
      const before = bench.replace();
      const early = bench.send(1, 1); // while the one before does not close yet
      const closed = before.close(60_000);
      const late = [bench.send(1, 1), bench.send(2, 1)];
      await answerAll(bench);
      await closed;
      expect(await inHand.result).toBe(2);
      for (const { result, text } of [early, ...late]) {
        expect(await result).toBe('UNAVAILABLE');
        expect(await text).toMatch(/^sequence [12] of model 'm' was lost: its model was loaded anew/);
      }
      expect(await bench.send(3, 1).result).toBe('INVALID_ARGUMENT');
      expect(await bench.send(4, 1).result).toBe('INVALID_ARGUMENT');
      const again = [bench.send(1, 5, 'start'), bench.send(1, 1, 'end')];
      await answerAll(bench);
      expect(await Promise.all(again.map(({ result }) => result))).toEqual([5, 6]);
      expect(await bench.send(1, 1).result).toBe('INVALID_ARGUMENT');
      bench.parts.clock.advance(IDLE_MS);
      expect(await bench.send(2, 1).result).toBe('INVALID_ARGUMENT');
    });

    it('are still remembered as lost when the START that is to begin them anew is refused', async () => {
      const bench = await createBench(batching, { maxQueueSize: 1 });
      bench.send(1, 1, 'start');
      await answerAll(bench);
      const before = bench.replace();
      await before.close(60_000);
      bench.send(2, 1, 'start');
      bench.send(2, 1); // fills the queue
      expect(await bench.send(1, 1, 'start').result).toBe('RESOURCE_EXHAUSTED');
      expect(await bench.send(1, 1).result).toBe('UNAVAILABLE');
      await answerAll(bench);
      const again = bench.send(1, 5, 'start');
      await answerAll(bench);
      expect(await again.result).toBe(5);
    });

    it('are missed by name only at the version that had them', async () => {
      const bench = await createBench(batching);
      bench.send(1, 1, 'start');
      await answerAll(bench);
      bench.replace('2');
      expect(await bench.send(1, 1, '', 1, '').text).toContain(
        'it began at version 1 of the model, and version 2 answers',
      );
      expect(await bench.send(1, 1, '', 1, '2').result).toBe('INVALID_ARGUMENT');
    });

    it('answers what it has when it closes, and those that waited for a place as well', async () => {
      const bench = await createBench(batching, { maxBatchSize: 4 });
      const sent = [1, 2, 3, 4, 5, 6].map((id) => bench.send(id, id, 'start'));
      const closed = bench.scheduler.close(60_000);
      await answerAll(bench);
      expect(await Promise.all(sent.map(({ result }) => result))).toEqual([1, 2, 3, 4, 5, 6]);
      expect(await closed).toBe(true);
      expect(bench.parts.instances[0]!.closed).toBe(true);
      expect(bench.parts.clock.timers).toBe(0);
      expect(await bench.send(1, 1, 'start').result).toBe('UNAVAILABLE');
    });

    it('fails what waits and what runs when its grace is over', async () => {
      const bench = await createBench(batching);
      const sent = [bench.send(1, 1, 'start'), bench.send(1, 1), bench.send(2, 1, 'start')];
      const closed = bench.scheduler.close(0);
      expect(await Promise.all(sent.map(({ result }) => result))).toEqual([
        'UNAVAILABLE',
        'UNAVAILABLE',
        'UNAVAILABLE',
      ]);
      expect(await closed).toBe(true);
      expect(bench.scheduler.pending()).toBe(0);
      expect(bench.scheduler.open()).toBe(0);
    });
  });
});
