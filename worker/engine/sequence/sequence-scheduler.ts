import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { notStarted, type SequencePart, sequenceLost, sequencePartOf } from '../../../shared/infer/sequence.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { Answers } from '../execute/answer-order.ts';
import { GracefulClose } from '../schedule/close-gracefully.ts';
import type { WaitingLine } from '../schedule/open-requests.ts';
import { OpenRequests } from '../schedule/open-requests.ts';
import type { PendingRequest } from '../schedule/pending-request.ts';
import type { Scheduler, SchedulerOptions } from '../schedule/scheduler.ts';
import { WakeTimer } from '../schedule/wake-timer.ts';
import { ControlTensors } from './control-tensors.ts';
import { KeptStates } from './kept-states.ts';
import type { ModelSequences } from './model-sequences.ts';
import { Sequence, SequenceRequest } from './sequence.ts';
import { SequenceLane, type Strategy } from './sequence-lane.ts';
import type { SequencePlan } from './sequence-plan.ts';

export interface SequenceOptions extends Omit<SchedulerOptions, 'plan'> {
  readonly plan: SequencePlan;
  readonly strategy: Strategy;
  /** A sequence without any request for so long gives up its place. */
  readonly maxIdleMs: number;
  /** What the states are when a sequence starts, in the order of the config. */
  readonly initialStates: readonly Tensor[];
  readonly version: string;
  /** Of all versions of the model. */
  readonly siblings: ModelSequences;
}

/**
 * Runs the requests of each sequence in their order, one at a time, all at the same place of the same instance. A sequence
 * gets a free place with its START, or waits for one in the backlog; its END, or a long silence, frees it.
 *
 * A request that fails or is given up did not happen: the sequence goes on from where it was. Only where that request was
 * the START there is nothing to go on from, and what follows it fails too.
 */
export class SequenceScheduler implements Scheduler, Answers {
  readonly #options: SequenceOptions;
  readonly #model: string;
  readonly #open: OpenRequests;
  readonly #controls: ControlTensors;
  readonly #states: KeptStates;
  readonly #lanes: readonly SequenceLane[];
  readonly #end: GracefulClose;
  readonly #idleTimer: WakeTimer;
  /** All that have a place or wait for one. */
  readonly #sequences = new Map<string, Sequence>();
  /** In the order of their START. */
  readonly #backlog = new Set<Sequence>();
  /** In the order in which they became idle. */
  readonly #idle = new Set<Sequence>();
  readonly #running = new Map<PendingRequest, SequenceRequest>();
  #waiting = 0;
  #draining = false;

  constructor(options: SequenceOptions) {
    const { plan, clock, instances } = options;
    const { model, batched } = plan.client;
    this.#options = options;
    this.#model = model;
    this.#open = new OpenRequests({ ...options, plan: plan.client });
    this.#controls = new ControlTensors(plan.controls, batched);
    this.#states = new KeptStates(model, plan.states, batched);
    this.#idleTimer = new WakeTimer(clock, options.maxIdleMs, () => this.#endIdle());
    this.#lanes = instances.map(
      (instance) =>
        new SequenceLane({
          ...options,
          plan: plan.run,
          sequences: plan,
          instances: [instance],
          open: this,
          controls: this.#controls,
          onRow: (request, row) => {
            this.#waiting -= 1;
            this.#running.set(row, request);
          },
        }),
    );
    this.#end = new GracefulClose({
      model,
      open: this.#open,
      executor: {
        abort: (error) => {
          for (const { executor } of this.#lanes) executor.abort(error);
        },
        close: async () => (await Promise.all(this.#lanes.map(({ executor }) => executor.close()))).every(Boolean),
      },
      clock,
      drain: () => this.#drain(),
      takeWaiting: () => this.#takeWaiting(),
    });
    options.siblings.join(options.version, this);
  }

  enqueue(request: InferRequest, call: Call): Promise<InferResponse> {
    let part: SequencePart;
    try {
      part = sequencePartOf(request);
      this.#controls.assertHolds(this.#model, part);
      if (!part.start && !this.isLive(part.key)) throw this.#missing(part, request.version);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
    return this.#open.admit(request, call, new Entrance(this, part));
  }

  pending(): number {
    return this.#waiting;
  }

  get count(): number {
    return this.#open.count;
  }

  open(): number {
    return this.#open.count;
  }

  /** Sequences that have a place or wait for one. */
  sequences(): number {
    return this.#sequences.size;
  }

  /** Places that a START would get now. */
  freePlaces(): number {
    return this.#lanes.reduce((sum, { free }) => sum + free, 0);
  }

  async close(graceMs: number): Promise<boolean> {
    const allClosed = await this.#end.close(graceMs);
    this.#idleTimer.close();
    for (const lane of this.#lanes) lane.close();
    return allClosed;
  }

  /** A request comes in, admitted. Without START its sequence is live. */
  accept(part: SequencePart, item: PendingRequest): SequenceRequest {
    if (part.start) this.#options.siblings.begun(part.key, this.#options.version, item.request.version);
    let sequence = this.#sequences.get(part.key);
    if (!sequence) this.#sequences.set(part.key, (sequence = new Sequence(part)));
    sequence.closing = part.end;
    const request = new SequenceRequest(sequence, part, item);
    sequence.waiting.push(request);
    this.#waiting += 1;
    this.#idle.delete(sequence);
    if (!sequence.place) this.#seat(sequence);
    else if (!sequence.running && sequence.waiting.length === 1) sequence.place.lane.noteFirst(sequence);
    sequence.place?.lane.pump();
    return request;
  }

  /** The caller of a request that does not run yet is gone. */
  withdraw(request: SequenceRequest): void {
    const { sequence, part } = request;
    const index = sequence.waiting.indexOf(request);
    if (index < 0) return;
    sequence.waiting.splice(index, 1);
    this.#waiting -= 1;
    if (part.start) this.#breakOff(sequence, index, 'its request with the START flag was given up');
    this.#advance(sequence);
    sequence.place?.lane.pumpSoon();
  }

  /** Whether the sequence takes requests without START. */
  isLive(key: string): boolean {
    return this.#sequences.get(key)?.closing === false;
  }

  succeed(row: PendingRequest, response: InferResponse, nowMs: number): void {
    const request = this.#running.get(row);
    if (!request) return;
    const { sequence, item } = request;
    const { outputs } = response;
    try {
      this.#states.keep(sequence, outputs);
    } catch (error) {
      this.fail(row, InferError.from(error));
      return;
    }
    this.#endRun(row, request);
    sequence.begun = true;
    if (request.part.end) this.#giveWay(sequence);
    // A copy, whose receiver cannot free the memory of the outputs: some of it may be states now.
    this.#open.succeed(item, { ...response, outputs: this.#forClient(item.request, outputs) }, nowMs);
    this.#goOn(sequence);
  }

  fail(row: PendingRequest, error: InferError): void {
    const request = this.#running.get(row);
    if (!request) return;
    const { sequence, item, part } = request;
    this.#endRun(row, request);
    this.#open.fail(item, error);
    if (part.end) this.#giveWay(sequence);
    if (part.start) this.#breakOff(sequence, 0, `its request with the START flag failed: ${error.message}`);
    this.#goOn(sequence);
  }

  #missing(part: SequencePart, asked: string): InferError {
    const why = this.#options.siblings.whyMissing(part.key, this.#options.version, asked);
    return why === undefined ? notStarted(this.#model, part) : sequenceLost(this.#model, part, why);
  }

  #endRun(row: PendingRequest, { sequence }: SequenceRequest): void {
    row.settled = true;
    this.#running.delete(row);
    sequence.running = undefined;
  }

  #goOn(sequence: Sequence): void {
    const lane = sequence.place?.lane;
    this.#advance(sequence);
    lane?.pumpSoon();
  }

  /** A sequence has ended whose id begins another one already: it waits for a place as any other does. */
  #giveWay(sequence: Sequence): void {
    if (sequence.waiting.length === 0 || this.#backlog.size === 0) return;
    this.#backlog.add(sequence);
    this.#vacate(sequence);
  }

  /** After a START that did not happen: what follows it, up to the next START, has nothing to go on from. */
  #breakOff(sequence: Sequence, from: number, why: string): void {
    const next = sequence.waiting.findIndex(({ part }, index) => index >= from && part.start);
    const end = next < 0 ? sequence.waiting.length : next;
    const broken = sequence.waiting.splice(from, end - from);
    this.#waiting -= broken.length;
    const error = sequenceLost(this.#model, sequence, why);
    for (const { item } of broken) this.#open.fail(item, error);
    if (next >= 0) return;
    // Those before it, which belong to the sequence as it was, may still run.
    sequence.closing = true;
  }

  /** Something of the sequence is over: its next request is ready, or it waits for one, or it ends. */
  #advance(sequence: Sequence): void {
    if (sequence.running) return;
    sequence.place?.lane.noteFirst(sequence);
    if (sequence.waiting.length > 0) return;
    if (sequence.closing || !sequence.begun || this.#draining) {
      this.#free(sequence);
      return;
    }
    const nowMs = this.#options.clock.now();
    sequence.idleSinceMs = nowMs;
    this.#idle.add(sequence);
    this.#idleTimer.arm(nowMs, this.#options.maxIdleMs);
  }

  /** The sequence is over. Its place goes to the one that has waited longest. */
  #free(sequence: Sequence): void {
    this.#sequences.delete(sequence.key);
    this.#backlog.delete(sequence);
    this.#idle.delete(sequence);
    this.#vacate(sequence);
  }

  #vacate(sequence: Sequence): void {
    this.#states.drop(sequence);
    sequence.place?.lane.release(sequence);
    for (const next of this.#backlog) {
      if (!this.#seat(next)) return;
      next.place?.lane.pumpSoon();
    }
  }

  /** A place on the emptiest instance, or else one in the backlog. Returns whether it has a place. */
  #seat(sequence: Sequence): boolean {
    let emptiest: SequenceLane | undefined;
    for (const lane of this.#lanes) {
      if (lane.free > 0 && (!emptiest || lane.occupied < emptiest.occupied)) emptiest = lane;
    }
    if (!emptiest) {
      this.#backlog.add(sequence);
      return false;
    }
    this.#backlog.delete(sequence);
    emptiest.seat(sequence);
    emptiest.noteFirst(sequence);
    return true;
  }

  #endIdle(): void {
    const nowMs = this.#options.clock.now();
    const { maxIdleMs, logger } = this.#options;
    for (const sequence of this.#idle) {
      const leftMs = sequence.idleSinceMs + maxIdleMs - nowMs;
      if (leftMs > 0) {
        this.#idleTimer.arm(nowMs, leftMs);
        return;
      }
      logger.debug({ model: this.#model, idleMs: maxIdleMs }, 'sequence ended by silence');
      this.#free(sequence);
    }
  }

  /** Nothing more comes, so a sequence without requests only keeps others from its place. */
  #drain(): void {
    this.#draining = true;
    const live = [...this.#sequences.keys()].filter((key) => this.isLive(key));
    this.#options.siblings.leave(this, live, this.#options.maxIdleMs);
    for (const sequence of [...this.#idle]) this.#free(sequence);
    for (const lane of this.#lanes) lane.drain();
  }

  #takeWaiting(): PendingRequest[] {
    const items: PendingRequest[] = [];
    for (const sequence of [...this.#sequences.values()]) {
      items.push(...sequence.waiting.splice(0).map(({ item }) => item));
      this.#advance(sequence);
    }
    this.#waiting = 0;
    return items;
  }

  /** States are not for clients, unless the config lists them as outputs too. */
  #forClient({ outputs: asked }: InferRequest, outputs: readonly Tensor[]): readonly Tensor[] {
    const { client, states } = this.#options.plan;
    if (states.length === 0) return outputs;
    const names = asked.length === 0 ? client.outputNames : asked;
    return outputs.filter(({ name }) => names.includes(name));
  }
}

/** Where one request enters the scheduler, knowing what it says of its sequence. */
class Entrance implements WaitingLine {
  readonly #scheduler: SequenceScheduler;
  readonly #part: SequencePart;
  #request: SequenceRequest | undefined;

  constructor(scheduler: SequenceScheduler, part: SequencePart) {
    this.#scheduler = scheduler;
    this.#part = part;
  }

  pending(): number {
    return this.#scheduler.pending();
  }

  /** Sequence batching has no queue policy. */
  refusal(): undefined {
    return undefined;
  }

  accept(item: PendingRequest): void {
    this.#request = this.#scheduler.accept(this.#part, item);
  }

  withdraw(): void {
    if (this.#request) this.#scheduler.withdraw(this.#request);
  }
}
