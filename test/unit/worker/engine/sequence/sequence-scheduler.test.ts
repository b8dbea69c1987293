import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { settle } from '../support/fake-instance.ts';
import { answerAll, answerSums, columnOf, CONTROLS, createBench, STATE } from './kit.ts';

const OLDEST = 'oldest { max_candidate_sequences: 2 }';

describe('SequenceScheduler', () => {
  describe('takes no request', () => {
    it.each([
      ['without a sequence', '', 'must specify a non-zero or non-empty correlation ID'],
      ['of sequence 0', 0, 'must specify a non-zero or non-empty correlation ID'],
      ['with a negative number', -1, 'expected a sequence_id from 1 to 2^64 - 1'],
      ['with a fraction', 1.5, 'expected a sequence_id from 1 to 2^64 - 1'],
      ['with a long text', 'x'.repeat(129), 'at most 128 bytes, got 129'],
    ])('%s', async (_, id, text) => {
      const bench = await createBench(STATE);
      const { result, text: message } = bench.send(id, 1, 'start');
      expect(await result).toBe('INVALID_ARGUMENT');
      expect(await message).toContain(text);
    });

    it('of a sequence that was not started', async () => {
      const bench = await createBench(STATE);
      const { result, text } = bench.send(7, 1);
      expect(await result).toBe('INVALID_ARGUMENT');
      expect(await text).toContain(
        "sequence 7 to model 'm' must specify the START flag on the first request of the sequence",
      );
      expect(bench.parts.stats.fail.count).toBe(0);
    });

    it('after the END of its sequence', async () => {
      const bench = await createBench(STATE);
      bench.send(7, 1, 'both');
      expect(await bench.send(7, 1).result).toBe('INVALID_ARGUMENT');
    });

    it('of a text where the model takes a number', async () => {
      const bench = await createBench(CONTROLS);
      expect(await bench.send('seven', 1, 'start').text).toContain('as its input CORRID is UINT64, got the text seven');
    });

    it('when as many wait as may', async () => {
      const bench = await createBench(STATE, { maxQueueSize: 2 });
      bench.send(1, 1, 'start');
      const waiting = [bench.send(1, 1), bench.send(1, 1)];
      expect(await bench.send(1, 1).result).toBe('RESOURCE_EXHAUSTED');
      await answerAll(bench);
      expect(await Promise.all(waiting.map(({ result }) => result))).toEqual([2, 3]);
    });
  });

  describe('with the strategy direct', () => {
    it('runs what is ready in the order of the places, one request of each sequence at a time', async () => {
      const bench = await createBench(`direct { } ${STATE}`);
      const first = bench.send(1, 10, 'start');
      bench.send(2, 20, 'start');
      bench.send(3, 30, 'start');
      bench.send(1, 11);
      bench.send(3, 31);
      bench.send(2, 21);
      expect(bench.rows()).toEqual([[10]]);
      answerSums(bench.runs[0]!);
      await settle();
      expect(await first.result).toBe(10);
      expect(bench.rows()).toEqual([[10], [20, 30]]);
      answerSums(bench.runs[1]!);
      await settle();
      expect(bench.rows()).toEqual([[10], [20, 30], [11]]);
      answerSums(bench.runs[2]!);
      await settle();
      expect(bench.rows().at(-1)).toEqual([21, 31]);
    });

    it('fills places without a request where the model can be told so', async () => {
      const bench = await createBench(`direct { } ${CONTROLS} ${STATE}`);
      bench.send(1, 10, 'start');
      answerSums(bench.runs[0]!);
      await settle();
      bench.send(2, 20, 'start');
      answerSums(bench.runs[1]!);
      await settle();
      bench.send(3, 30, 'end');
      bench.send(3, 30, 'both');
      const run = bench.runs[2]!;
      expect(columnOf(run, 'x')).toEqual([0, 0, 30]);
      expect(columnOf(run, 'READY')).toEqual([0, 0, 1]);
      expect(columnOf(run, 'START')).toEqual([0, 0, 1]);
      expect(columnOf(run, 'END')).toEqual([0, 0, 1]);
      expect(columnOf(run, 'CORRID')).toEqual([0, 0, 3]);
    });

    it('stops a run that nobody waits for, whatever places it fills', async () => {
      const bench = await createBench(`direct { } ${CONTROLS} ${STATE}`);
      bench.send(1, 10, 'start');
      answerSums(bench.runs[0]!);
      await settle();
      const { call, result } = bench.send(2, 20, 'start');
      call.cancel(new InferError('CANCELLED', 'gone'));
      expect(await result).toBe('CANCELLED');
      expect(bench.runs[1]!.stopped).toBe(true);
      await settle();
      expect(bench.scheduler.sequences()).toBe(1);
    });

    it('keeps each request in its row when a run that failed is run again in halves', async () => {
      const bench = await createBench(`direct { } ${CONTROLS} ${STATE}`);
      bench.send(9, 1, 'start');
      const sent = [1, 2, 3].map((id) => bench.send(id, 10 * id, 'start'));
      answerSums(bench.runs[0]!);
      await settle();
      expect(columnOf(bench.runs[1]!, 'x')).toEqual([0, 10, 20, 30]);
      bench.runs[1]!.fail(new InferError('INTERNAL', 'one of them is bad'));
      await settle();
      expect(columnOf(bench.runs[2]!, 'x')).toEqual([0, 10, 20, 0]);
      expect(columnOf(bench.runs[2]!, 'READY')).toEqual([0, 1, 1, 0]);
      answerSums(bench.runs[2]!);
      await settle();
      expect(columnOf(bench.runs[3]!, 'x')).toEqual([0, 0, 0, 30]);
      expect(columnOf(bench.runs[3]!, 'CORRID')).toEqual([0, 0, 0, 3]);
      bench.runs[3]!.fail(new InferError('INTERNAL', 'this one'));
      await settle();
      expect(await Promise.all(sent.map(({ result }) => result))).toEqual([10, 20, 'INTERNAL']);
      expect(bench.runs).toHaveLength(4);
    });

    it('runs nothing where all that waited for their second try are gone', async () => {
      const bench = await createBench(`direct { } ${CONTROLS} ${STATE}`);
      bench.send(9, 1, 'start');
      const sent = [1, 2].map((id) => bench.send(id, 10 * id, 'start'));
      answerSums(bench.runs[0]!);
      await settle();
      bench.runs[1]!.fail(new InferError('INTERNAL', 'one of them is bad'));
      await settle();
      expect(columnOf(bench.runs[2]!, 'x')).toEqual([0, 10, 0]);
      sent[1]!.call.cancel(new InferError('CANCELLED', 'gone'));
      answerSums(bench.runs[2]!);
      await settle();
      expect(await Promise.all(sent.map(({ result }) => result))).toEqual([10, 'CANCELLED']);
      expect(bench.runs).toHaveLength(3);
      const next = bench.send(1, 1);
      await answerAll(bench);
      expect(await next.result).toBe(11);
    });

    it('counts an execution to a request, not to an empty place', async () => {
      const bench = await createBench(`direct { } ${CONTROLS} ${STATE}`);
      bench.send(1, 1, 'start');
      answerSums(bench.runs[0]!);
      await settle();
      bench.send(2, 1, 'start');
      answerSums(bench.runs[1]!);
      await settle();
      expect(bench.parts.stats.executionCount).toBe(2);
      expect(bench.parts.stats.inferenceCount).toBe(2);
    });

    it('waits for the delay until enough places have a request', async () => {
      const bench = await createBench(
        `direct { minimum_slot_utilization: 0.5 max_queue_delay_microseconds: 5000 } ${STATE}`,
      );
      bench.send(1, 10, 'start');
      expect(bench.rows()).toEqual([]);
      bench.send(2, 20, 'start');
      expect(bench.rows()).toEqual([[10, 20]]);
      answerSums(bench.runs[0]!);
      await settle();
      bench.send(1, 11);
      bench.parts.clock.advance(4);
      expect(bench.rows()).toHaveLength(1);
      bench.parts.clock.advance(1);
      expect(bench.rows()).toEqual([[10, 20], [11]]);
    });

    it('runs requests of different shapes apart', async () => {
      const bench = await createBench(`direct { } ${CONTROLS}`);
      bench.send(9, 1, 'start');
      bench.send(1, 10, 'start', 2);
      bench.send(2, 20, 'start', 3);
      bench.send(3, 30, 'start', 2);
      bench.runs[0]!.finish();
      await settle();
      expect(columnOf(bench.runs[1]!, 'x')).toEqual([0, 10, 0, 30]);
      expect(bench.runs[1]!.inputs[0]!.shape).toEqual([4, 2]);
    });

    it('spreads sequences over the instances', async () => {
      const bench = await createBench(`direct { } ${STATE}`, { instances: 2 });
      for (const id of [1, 2, 3, 4]) bench.send(id, id, 'start');
      expect([bench.rows(0), bench.rows(1)]).toEqual([[[1]], [[2]]]);
      await answerAll(bench);
      for (const id of [1, 2, 3, 4]) bench.send(id, 10 * id);
      await answerAll(bench);
      expect(bench.rows(0).flat().sort()).toEqual([1, 10, 3, 30].sort());
    });
  });

  describe('with the strategy oldest', () => {
    it('merges the first requests of its candidates as dynamic batching does', async () => {
      const bench = await createBench(
        `oldest { max_candidate_sequences: 8 preferred_batch_size: 2 max_queue_delay_microseconds: 5000 } ${STATE}`,
      );
      bench.send(1, 10, 'start');
      bench.send(1, 11);
      expect(bench.rows()).toEqual([]);
      bench.send(2, 20, 'start');
      expect(bench.rows()).toEqual([[10, 20]]);
      answerSums(bench.runs[0]!);
      await settle();
      expect(bench.rows()).toHaveLength(1);
      bench.parts.clock.advance(5);
      expect(bench.rows()).toEqual([[10, 20], [11]]);
    });

    it('does not fill places', async () => {
      const bench = await createBench(`${OLDEST} ${CONTROLS} ${STATE}`);
      bench.send(1, 10, 'start');
      await answerAll(bench);
      bench.send(2, 20, 'start');
      expect(bench.rows()).toEqual([[10], [20]]);
    });

    it('holds as many sequences as there are candidates, and lets the others wait', async () => {
      const bench = await createBench(`${OLDEST} ${STATE}`);
      for (const id of [1, 2, 3, 4]) bench.send(id, id, 'start');
      await answerAll(bench);
      expect(bench.rows().flat()).toEqual([1, 2]);
      expect(bench.scheduler.pending()).toBe(2);
    });
  });

  it('refuses a state that does not have the shape that the config says', async () => {
    const bench = await createBench(STATE);
    const { result, text } = bench.send(1, 1, 'start', 2);
    bench.runs[0]!.finish();
    expect(await result).toBe('INTERNAL');
    expect(await text).toContain("state 'out' of model 'm': expected the shape [1,1], the model gave the shape [1,2]");
    expect(bench.scheduler.sequences()).toBe(0);
  });

  it('keeps states of different shapes apart', async () => {
    const bench = await createBench(STATE.replace('dims: [ 1 ]', 'dims: [ -1 ]'));
    bench.send(1, 1, 'start', 2);
    bench.runs[0]!.finish();
    await settle();
    bench.send(2, 1, 'start', 3);
    bench.runs[1]!.finish();
    await settle();
    bench.send(9, 1, 'start');
    bench.send(1, 1);
    bench.send(2, 1);
    bench.runs[2]!.finish();
    await settle();
    expect(bench.runs[3]!.inputs.map(({ name, shape }) => [name, shape])).toEqual([
      ['x', [1, 1]],
      ['in', [1, 2]],
    ]);
  });
});
