import { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { EmptyRow } from '../execute/batch.ts';
import { Executor, type ExecutorOptions } from '../execute/executor.ts';
import type { BatchLimits } from '../schedule/batch-policy.ts';
import { PendingRequest } from '../schedule/pending-request.ts';
import { WaitEvidence } from '../schedule/wait-evidence.ts';
import { WakeTimer } from '../schedule/wake-timer.ts';
import type { ControlTensors } from './control-tensors.ts';
import { decideDirect, decideOldest, type DirectLimits, type LaneDecision } from './lane-policy.ts';
import { PadRows } from './pad-rows.ts';
import type { Sequence, SequenceRequest } from './sequence.ts';
import type { SequencePlan } from './sequence-plan.ts';

export type Strategy =
  | { readonly kind: 'direct'; readonly limits: DirectLimits }
  | { readonly kind: 'oldest'; readonly slots: number; readonly limits: BatchLimits };

export interface LaneOptions extends ExecutorOptions {
  readonly plan: SequencePlan['run'];
  readonly sequences: SequencePlan;
  readonly strategy: Strategy;
  readonly controls: ControlTensors;
  /** What a model's states are when a sequence starts. */
  readonly initialStates: readonly Tensor[];
  /** A request has got its row; what becomes of that goes to the lane's `open`. */
  readonly onRow: (request: SequenceRequest, row: PendingRequest) => void;
}

const NOBODY = (): void => {};

/**
 * One instance with its places for sequences. A sequence stays at its place until it ends, and at most one of its requests
 * is in a run.
 */
export class SequenceLane {
  readonly executor: Executor;
  readonly #options: LaneOptions;
  readonly #clock: Clock;
  readonly #maxSlots: number;
  /** By place; undefined for a free one before an occupied one. */
  readonly #places: (Sequence | undefined)[] = [];
  /** In the order in which they became ready. */
  readonly #ready = new Set<Sequence>();
  readonly #pads: PadRows;
  readonly #evidence: WaitEvidence;
  readonly #timer: WakeTimer;
  #occupied = 0;
  #pumpDue = false;
  #draining = false;

  constructor(options: LaneOptions) {
    const { strategy, clock } = options;
    this.#options = options;
    this.#clock = clock;
    this.#maxSlots = strategy.kind === 'direct' ? strategy.limits.slots : strategy.slots;
    this.#pads = new PadRows(options.controls);
    this.#evidence = new WaitEvidence(strategy.limits.delayMs);
    this.#timer = new WakeTimer(clock, strategy.limits.delayMs, () => this.pump());
    this.executor = new Executor(options, () => this.pump());
  }

  get occupied(): number {
    return this.#occupied;
  }

  /** Places that no sequence has. */
  get free(): number {
    return this.#maxSlots - this.#occupied;
  }

  /** Gives the sequence the first free place; there is one. */
  seat(sequence: Sequence): void {
    const free = this.#places.indexOf(undefined);
    const index = free < 0 ? this.#places.length : free;
    this.#places[index] = sequence;
    this.#occupied += 1;
    sequence.place = { lane: this, index };
  }

  /** The sequence is over. */
  release(sequence: Sequence): void {
    if (sequence.place?.lane !== this) return;
    this.#places[sequence.place.index] = undefined;
    while (this.#places.length > 0 && this.#places.at(-1) === undefined) this.#places.pop();
    this.#occupied -= 1;
    this.#ready.delete(sequence);
    sequence.place = undefined;
  }

  /** The first waiting request of the sequence, which does not run, is another now, or none. */
  noteFirst(sequence: Sequence): void {
    this.#ready.delete(sequence);
    const [first] = sequence.waiting;
    if (!first) return;
    sequence.readyMs = this.#clock.now();
    sequence.groupKey = this.#groupKey(first);
    this.#evidence.noteArrival(sequence.groupKey, sequence.readyMs, this.#occupied > 1);
    this.#ready.add(sequence);
  }

  /** Nothing more comes: what is ready need not wait for company. */
  drain(): void {
    this.#draining = true;
    this.pump();
  }

  /** Starts what may start, once all that happens in this turn has happened: the sequences of a run become ready together. */
  pumpSoon(): void {
    if (this.#pumpDue) return;
    this.#pumpDue = true;
    queueMicrotask(() => {
      this.#pumpDue = false;
      this.pump();
    });
  }

  pump(): void {
    while (this.#ready.size > 0 && this.executor.idle) {
      const nowMs = this.#clock.now();
      const decision = this.#decide(nowMs);
      if ('waitMs' in decision) {
        this.#timer.arm(nowMs, decision.waitMs);
        return;
      }
      const [first] = decision.run;
      if (!first || !this.executor.reserve()) return;
      this.#evidence.noteRelease(decision.run.length, decision.reason, nowMs - first.readyMs);
      const emptyRow = this.#emptyRowFor(first, nowMs);
      this.executor.start(this.#rowsOf(decision.run, nowMs, emptyRow), decision.reason, emptyRow);
    }
  }

  close(): void {
    this.#timer.close();
  }

  #decide(nowMs: number): LaneDecision<Sequence> {
    const { strategy } = this.#options;
    const maxRows = this.executor.mergeable ? strategy.limits.maxRows : 1;
    if (strategy.kind === 'direct') {
      return decideDirect(this.#ready, nowMs, { ...strategy.limits, maxRows }, this.#draining);
    }
    const mood = { patient: this.#evidence.patient, draining: this.#draining };
    return decideOldest(this.#ready, nowMs, { ...strategy.limits, maxRows }, mood);
  }

  /** Takes the first request of each sequence and lays the rows out, with `direct` in the order of the places. */
  #rowsOf(run: readonly Sequence[], nowMs: number, emptyRow: EmptyRow | undefined): PendingRequest[] {
    if (this.#options.strategy.kind === 'oldest') return run.flatMap((each) => this.#take(each, nowMs));
    const running = new Set(run);
    const rows: PendingRequest[] = [];
    for (const sequence of [...this.#places]) {
      if (sequence && running.has(sequence)) rows.push(...this.#take(sequence, nowMs));
      else if (emptyRow) rows.push(emptyRow());
    }
    return rows;
  }

  /** With `direct`, rows keep the order of the places where the model can be told which of them are empty. */
  #emptyRowFor({ groupKey, waiting: [request] }: Sequence, nowMs: number): EmptyRow | undefined {
    const { plan, controls, strategy } = this.#options;
    if (!request || strategy.kind !== 'direct' || !controls.canPad) return undefined;
    if (!this.executor.mergeable || plan.maxRows < this.#places.length) return undefined;
    const inputs = this.#pads.of(groupKey, request.item.inputs, this.#statesOf(request));
    const asked = this.#withStates(request.item.request);
    return () => {
      const row = createRow(asked, new Call('', nowMs, Infinity), inputs, nowMs);
      row.empty = true;
      row.settled = true;
      return row;
    };
  }

  #take(sequence: Sequence, nowMs: number): PendingRequest[] {
    const request = sequence.waiting.shift();
    if (!request) return [];
    this.#ready.delete(sequence);
    const { item, part } = request;
    const { start, end, id } = part;
    const controls = this.#options.controls.of({ start, end, id, ready: true });
    const inputs = [...item.inputs, ...controls, ...this.#statesOf(request)];
    const row = createRow(this.#withStates(item.request), item.call.part(nowMs), inputs, item.enqueuedMs);
    request.row = row;
    item.batch = request;
    sequence.running = request;
    this.#options.onRow(request, row);
    return [row];
  }

  #statesOf({ sequence, part }: SequenceRequest): readonly Tensor[] {
    return part.start ? this.#options.initialStates : sequence.states;
  }

  /** States are outputs of every run, whatever the caller asks for. */
  #withStates(request: InferRequest): InferRequest {
    const { states } = this.#options.sequences;
    if (request.outputs.length === 0 || states.length === 0) return request;
    const names = new Set([...request.outputs, ...states.map(({ outputName }) => outputName)]);
    return { ...request, outputs: [...names] };
  }

  #groupKey(request: SequenceRequest): string {
    if (!this.#options.sequences.statesVary) return request.item.groupKey;
    const shapes = this.#statesOf(request).map(({ shape }) => shape.join(','));
    return `${request.item.groupKey}/${shapes.join('/')}`;
  }
}

/** What runs of a request: its own inputs with what the model wants beside them. It is settled when its run is over. */
function createRow(request: InferRequest, call: Call, inputs: readonly Tensor[], enqueuedMs: number): PendingRequest {
  return new PendingRequest(request, call, inputs, 1, '', enqueuedMs, NOBODY, NOBODY);
}
