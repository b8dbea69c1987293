import { describe, expect, it } from 'vitest';
import type { PendingRequest } from '../../../../producer/dispatch/pending-requests.ts';
import type {
  Holder,
  HolderQuestion,
  SequenceHolders,
  SequenceName,
} from '../../../../producer/dispatch/sequence-holders.ts';
import { SequenceLines } from '../../../../producer/dispatch/sequence-lines.ts';
import { InferError } from '../../../../shared/errors.ts';
import { Call } from '../../../../shared/infer/call.ts';
import { NotServed } from '../../../../shared/infer/not-served.ts';
import { sequencePartOf } from '../../../../shared/infer/sequence.ts';
import { FakeClock } from '../../worker/engine/support/fake-clock.ts';
import { settle } from '../../worker/engine/support/fake-instance.ts';

const IDLE_MS = 1000;

/** Lines whose worker is always w1 unless the test says otherwise. */
class Bench {
  readonly clock = new FakeClock();
  readonly sent: number[] = [];
  readonly failed = new Map<number, InferError>();
  readonly gone: string[] = [];
  readonly questions: HolderQuestion[] = [];
  readonly extended: number[] = [];
  readonly forgotten: [SequenceName, Holder][] = [];
  /** What the model's latest version is. */
  version = '1';
  readonly alive = new Set(['w1']);
  refusal: InferError | undefined;
  readonly lines: SequenceLines;
  #next = 0;

  constructor() {
    const holders: Pick<SequenceHolders, 'find' | 'extend' | 'forget'> = {
      find: (question) => {
        this.questions.push({ ...question, full: new Set(question.full) });
        const worker = ['w1', 'w2'].find((each) => !question.full.has(each));
        const refusal = this.refusal ?? (worker ? undefined : new InferError('RESOURCE_EXHAUSTED', 'all are full'));
        return refusal ? Promise.reject(refusal) : Promise.resolve({ worker: worker!, text: `${worker} token` });
      },
      extend: (_name, ttlMs) => {
        this.extended.push(ttlMs);
        return Promise.resolve();
      },
      forget: (name, holder) => {
        this.forgotten.push([name, holder]);
        return Promise.resolve();
      },
    };
    this.lines = new SequenceLines({
      holders,
      resolve: () => {
        if (this.version === '') throw new NotServed('NOT_FOUND', 'no version serves');
        return { version: this.version, maxBatchSize: 4 };
      },
      isAlive: (worker) => this.alive.has(worker),
      clock: this.clock,
      send: (request) => {
        request.bundle = 'b';
        this.sent.push(request.sequence);
      },
      fail: (request, error) => {
        this.failed.set(request.sequence, error);
        this.settle(request);
      },
      onWorkerGone: (worker) => this.gone.push(worker),
    });
  }

  push(id: number, { start = false, end = false, timeoutMs = Infinity, version = '' } = {}): PendingRequest {
    const parameters = { sequence_id: id, sequence_start: start, sequence_end: end };
    const request = { id: '', model: 'm', version, inputs: [], outputs: [], parameters };
    const pending: PendingRequest = {
      sequence: (this.#next += 1),
      request,
      call: new Call('c', this.clock.now(), this.clock.now() + timeoutMs),
      rows: 1,
      bytes: 0,
      bundle: '',
      queueVersion: '',
      worker: '',
      resends: 0,
      queued: false,
      settled: false,
      resolve: () => {},
      reject: () => {},
      gauge: { count: 0 },
    };
    this.lines.push(pending, sequencePartOf(request), IDLE_MS);
    return pending;
  }

  /** As when its caller has its answer, or is gone. */
  settle(request: PendingRequest): void {
    request.settled = true;
    this.lines.settled(request);
  }
}

describe('SequenceLines', () => {
  it('sends one request of a sequence at a time, and others meanwhile', async () => {
    const bench = new Bench();
    for (const id of [1, 1, 2, 1]) bench.push(id);
    await settle();
    expect(bench.sent).toEqual([1, 3]);
    bench.lines.over(1);
    await settle();
    expect(bench.sent).toEqual([1, 3, 2]);
    bench.lines.over(2);
    await settle();
    expect(bench.sent).toEqual([1, 3, 2, 4]);
  });

  it('remembers who holds a sequence for as long as the request may wait, then for its idle time', async () => {
    const bench = new Bench();
    bench.push(1, { start: true, timeoutMs: 60_000 });
    bench.push(2, { timeoutMs: 10 });
    bench.push(3);
    await settle();
    expect(bench.questions.map(({ ttlMs }) => ttlMs)).toEqual([65_000, 6000, 605_000]);
    bench.lines.over(1);
    expect(bench.extended).toEqual([6000]);
  });

  it('does not remember a sequence that has ended', async () => {
    const bench = new Bench();
    bench.push(1, { start: true, end: true });
    await settle();
    bench.lines.over(1, true);
    expect(bench.extended).toEqual([]);
    expect(bench.forgotten).toMatchObject([[{ model: 'm', version: '1' }, { text: 'w1 token' }]]);
  });

  it('remembers a sequence whose END was not answered with a result', async () => {
    const bench = new Bench();
    bench.push(1, { end: true });
    await settle();
    bench.lines.over(1);
    expect(bench.forgotten).toEqual([]);
    expect(bench.extended).toEqual([6000]);
  });

  it('keeps the sequences of versions that are asked for by different names apart', async () => {
    const bench = new Bench();
    bench.push(1);
    bench.push(1, { version: '2' });
    await settle();
    expect(bench.sent).toEqual([1, 2]);
    expect(bench.questions.map(({ asked }) => asked)).toEqual(['', '2']);
  });

  it('asks which version answers when it is the turn of a request', async () => {
    const bench = new Bench();
    const [first, second] = [bench.push(1), bench.push(1)];
    bench.version = '2';
    const third = bench.push(1);
    await settle();
    expect(bench.sent).toEqual([1]);
    bench.lines.over(1);
    await settle();
    bench.lines.over(2);
    await settle();
    expect(bench.sent).toEqual([1, 2, 3]);
    expect([first, second, third].map(({ request }) => request.version)).toEqual(['1', '2', '2']);
  });

  it('keeps what follows a START behind it when another version answers that', async () => {
    const bench = new Bench();
    const start = bench.push(1, { start: true });
    const next = bench.push(1);
    await settle();
    expect(bench.lines.refused(start.sequence, new NotServed('UNAVAILABLE', 'unloaded'))).toBeUndefined();
    bench.version = '2';
    const late = bench.push(1);
    await settle();
    expect(bench.sent).toEqual([1]);
    bench.clock.advance(50);
    await settle();
    expect(bench.sent).toEqual([1, 1]);
    bench.lines.over(1, true);
    await settle();
    expect(bench.sent).toEqual([1, 1, 2]);
    bench.lines.over(2, true);
    await settle();
    expect(bench.sent).toEqual([1, 1, 2, 3]);
    expect([start, next, late].map(({ request }) => request.version)).toEqual(['2', '2', '2']);
  });

  it('answers all that wait when nothing serves the model any more, however many they are', async () => {
    const bench = new Bench();
    const many = 20_000;
    for (let i = 0; i < many; i += 1) bench.push(1);
    await settle();
    bench.version = '';
    bench.lines.over(1);
    expect(bench.failed.size).toBe(many - 1);
    bench.version = '1';
    bench.push(1);
    await settle();
    expect(bench.sent).toEqual([1, many + 1]);
  });

  it('begins a sequence at another worker when one has no room, and says what the last one said', async () => {
    const bench = new Bench();
    const request = bench.push(1, { start: true });
    bench.push(1);
    await settle();
    const full = new InferError('RESOURCE_EXHAUSTED', 'Exceeds maximum queue size', { refusedAt: 'entry' });
    expect(bench.lines.crowded(request.sequence, full)).toBeUndefined();
    await settle();
    expect(bench.sent).toEqual([1, 1]);
    expect(request.worker).toBe('w2');
    expect(bench.lines.crowded(request.sequence, full)).toBeUndefined();
    await settle();
    expect(bench.failed.get(request.sequence)).toBe(full);
    expect(bench.sent).toEqual([1, 1, 2]);
  });

  it('leaves the refusal of a request in the middle of a sequence to its caller', async () => {
    const bench = new Bench();
    const request = bench.push(1);
    await settle();
    const full = new InferError('RESOURCE_EXHAUSTED', 'Exceeds maximum queue size', { refusedAt: 'entry' });
    expect(bench.lines.crowded(request.sequence, full)).toBe(full);
  });

  it('answers with what the holders say, and goes on with the next', async () => {
    const bench = new Bench();
    bench.refusal = new InferError('UNAVAILABLE', 'lost');
    bench.push(1);
    bench.push(1);
    await settle();
    expect([...bench.failed.values()].map(({ message }) => message)).toEqual(['lost', 'lost']);
    expect(bench.lines.has(1)).toBe(false);
  });

  it('leaves out a request whose caller is gone before it is sent', async () => {
    const bench = new Bench();
    bench.push(1);
    const gone = bench.push(1);
    bench.push(1);
    await settle();
    bench.settle(gone);
    bench.lines.over(1);
    await settle();
    expect(bench.sent).toEqual([1, 3]);
  });

  it('waits for the worker to be done with a request whose caller is gone, but not for ever', async () => {
    const bench = new Bench();
    const gone = bench.push(1);
    bench.push(1);
    await settle();
    bench.settle(gone);
    bench.clock.advance(29_999);
    await settle();
    expect(bench.sent).toEqual([1]);
    bench.clock.advance(1);
    await settle();
    expect(bench.sent).toEqual([1, 2]);
    expect(bench.failed.size).toBe(0);
  });

  it('gives up what is on its way to a worker that is gone, after a moment', async () => {
    const bench = new Bench();
    bench.push(1);
    bench.push(2);
    await settle();
    bench.alive.clear();
    bench.lines.follow();
    bench.clock.advance(999);
    bench.lines.follow();
    expect(bench.failed.size).toBe(0);
    bench.clock.advance(1);
    bench.lines.follow();
    expect([...bench.failed].map(([sequence, { code }]) => [sequence, code])).toEqual([
      [1, 'UNAVAILABLE'],
      [2, 'UNAVAILABLE'],
    ]);
    expect(bench.failed.get(2)?.message).toBe(
      "sequence 2 of model 'm' was lost: its worker is gone; it must be started again, with the START flag",
    );
    expect(bench.gone).toEqual(['w1']);
  });

  it('keeps what is on its way to a worker that was only missed for a moment', async () => {
    const bench = new Bench();
    bench.push(1);
    await settle();
    bench.alive.clear();
    bench.lines.follow();
    bench.alive.add('w1');
    bench.clock.advance(5000);
    bench.lines.follow();
    bench.alive.clear();
    bench.lines.follow();
    expect(bench.failed.size).toBe(0);
  });

  it('begins a sequence elsewhere when its worker does not serve the model any more', async () => {
    const bench = new Bench();
    const request = bench.push(1, { start: true });
    await settle();
    expect(bench.lines.refused(request.sequence, new NotServed('UNAVAILABLE', 'unloaded'))).toBeUndefined();
    bench.version = '2';
    bench.clock.advance(50);
    await settle();
    expect(bench.sent).toEqual([1, 1]);
    expect(request.request.version).toBe('2');
  });

  it('says that a sequence in the middle is lost when its worker does not serve the model any more', async () => {
    const bench = new Bench();
    const request = bench.push(1);
    await settle();
    const error = bench.lines.refused(request.sequence, new NotServed('NOT_FOUND', 'unloaded'));
    expect(error?.code).toBe('UNAVAILABLE');
    expect(error?.message).toContain('was lost: its worker does not serve the model any more');
  });
});
