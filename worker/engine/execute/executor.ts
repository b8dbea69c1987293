import { InferError } from '../../../shared/errors.ts';
import { NO_PARAMETERS } from '../../../shared/infer/request.ts';
import type { ReleaseReason } from '../../../shared/infer/response.ts';
import { ChurnSet } from '../../../shared/runtime/churn.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { firstRowOf, type RunMember } from '../batch/first-row.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import { type BatchAssembler, createAssembler } from '../batch/padded-assemble.ts';
import { LengthMismatch, splitBatch } from '../batch/padded-split.ts';
import { paddingShareOf } from '../batch/padding-plan.ts';
import { RowMismatch, wantedOutputs } from '../batch/split.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { filledRows } from '../schedule/batch-sizes.ts';
import type { PendingRequest } from '../schedule/pending-request.ts';
import { AnswerOrder, type Answers } from './answer-order.ts';
import { Batch, type EmptyRow } from './batch.ts';
import { freeWhenAnswered } from './free-when-answered.ts';
import { LargeResponse } from './large-response.ts';
import { planRecovery } from './recovery.ts';
import type { RunGate, SlotWaiter } from './run-slots.ts';

/** How long a run that was told to stop may take before its instance is given up. */
const STOP_MS = 2000;

export interface ExecutorOptions {
  readonly plan: ModelPlan;
  readonly instances: readonly ModelInstance[];
  /** Where answers go. */
  readonly open: Answers;
  readonly preserveOrdering: boolean;
  /** What every run takes, unless its instance has a gate of its own. */
  readonly slots: RunGate;
  readonly gates?: ReadonlyMap<ModelInstance, RunGate> | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Rows that a run may have, ascending; it is filled up to one of them. Absent for any. */
  readonly sizes?: readonly number[] | undefined;
  /** Told of each run of several rows that found no memory. */
  readonly onShort?: ((batch: Batch) => void) | undefined;
  /** Told of each run that went well, just before its members are answered. */
  readonly onRan?: ((batch: Batch, runMs: number, startedMs: number) => void) | undefined;
}

/** What is put to rest before it runs again; no caller ever sees it. */
const NOBODY_WAITS = new InferError('CANCELLED', 'nobody waits for the request any more');

/** An instance with the memory that its batches are assembled in. */
interface Lane {
  readonly instance: ModelInstance;
  /** For the plan beside it. */
  assembler: BatchAssembler;
  plan: ModelPlan;
  /** Taken for each run. */
  readonly gate: RunGate;
}

/** How a run was made, and when, on the clock, in ms. */
interface RunNotes {
  readonly plan: ModelPlan;
  /** The rows of the batch and those that fill it up. */
  readonly members: readonly RunMember[];
  readonly startedMs: number;
  readonly assembledMs: number;
}

/**
 * Runs batches on the instances of one model version: merge, run, split, answer. A lane is idle or has exactly one batch.
 * A batch that fails comes back in parts (recovery.ts), and parts run before anything new.
 */
export class Executor implements SlotWaiter {
  /** Pads nothing any more once an output has shown another length than was declared. */
  #plan: ModelPlan;
  readonly #answers: Answers;
  /** The same, where answers have to leave in order. */
  readonly #order: AnswerOrder | undefined;
  readonly #onLeave: (() => void) | undefined;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onFree: () => void;
  readonly #onRan: ExecutorOptions['onRan'];
  readonly #onShort: ExecutorOptions['onShort'];
  #sizes: readonly number[] | undefined;
  readonly #idle: Lane[];
  /** Instances have gates of their own, so that one may be free to run and another not. */
  readonly #gated: boolean;
  /** Between `reserve` and `start`. */
  #reserved: Lane | undefined;
  readonly #running = new ChurnSet<Batch>();
  readonly #retries: Batch[] = [];
  #mergeable = true;
  #onQuiet: (() => void) | undefined;

  /** `onFree` is called whenever a batch could be started. */
  constructor(options: ExecutorOptions, onFree: () => void) {
    this.#plan = options.plan;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#onFree = onFree;
    this.#onRan = options.onRan;
    this.#onShort = options.onShort;
    this.#sizes = options.plan.batched ? options.sizes : undefined;
    const order = options.preserveOrdering
      ? new AnswerOrder(options.open, options.clock, () => this.wake())
      : undefined;
    this.#order = order;
    this.#answers = order ?? options.open;
    this.#onLeave = order && (() => order.release());
    this.#gated = options.gates !== undefined;
    this.#idle = options.instances.map((instance) => ({
      instance,
      assembler: createAssembler(options.plan),
      plan: options.plan,
      gate: options.gates?.get(instance) ?? options.slots,
    }));
  }

  /** An instance is idle and no part of a failed batch wants it. */
  get idle(): boolean {
    return this.#idle.length > 0 && this.#retries.length === 0 && this.#order?.full !== true;
  }

  /** False once the model has shown that rows of different requests cannot be told apart in its outputs. */
  get mergeable(): boolean {
    return this.#mergeable;
  }

  /** Reserves one run. When false, `onFree` is called once there may be room. The reservation is for `start`. */
  reserve(): boolean {
    this.#reserved = this.#takeLane();
    return this.#reserved !== undefined;
  }

  /**
   * Runs the members that are still waited for. An instance is idle and a run reserved.
   * @param emptyRow given where each member keeps its row: it takes the place of one that is not waited for any more
   * @param exact the run is not to be filled up to a size
   */
  start(members: readonly PendingRequest[], release: ReleaseReason, emptyRow?: EmptyRow, exact = false): void {
    const lane = this.#reserved;
    this.#reserved = undefined;
    const rows = this.#dropExpired(members, emptyRow);
    if (!lane) return;
    if (rows.some((member) => !member.empty)) {
      const batch = new Batch(rows, release, this.#onLeave, emptyRow);
      batch.exact = exact;
      this.#run(lane, batch);
    } else {
      this.#idle.push(lane);
      lane.gate.give(this);
    }
  }

  wake(): void {
    this.#startRetries();
    this.#onFree();
  }

  /** Fails all that runs or is to run again, and stops the runs. */
  abort(error: InferError): void {
    for (const batch of [...this.#running, ...this.#retries]) {
      for (const member of batch.members) this.#answers.fail(member, error);
      batch.live = 0;
      batch.run?.stop();
    }
    this.#retries.length = 0;
  }

  /** Waits for runs to end, a stuck one only for a while, and closes the instances. False when one is still busy. */
  async close(): Promise<boolean> {
    if (this.#running.size > 0) {
      await new Promise<void>((resolve) => {
        const cancelTimer = this.#clock.setTimer(resolve, STOP_MS);
        this.#onQuiet = () => {
          cancelTimer();
          resolve();
        };
      });
    }
    const stuck = this.#running.size;
    if (stuck > 0) {
      this.#logger.warn({ model: this.#plan.model, runs: stuck }, 'runs do not stop, instances are left');
    }
    await Promise.all(this.#idle.splice(0).map(({ instance }) => instance.close()));
    return stuck === 0;
  }

  #takeLane(): Lane | undefined {
    if (!this.#gated) return this.#idle.at(-1)?.gate.take(this) ? this.#idle.pop() : undefined;
    for (const lane of this.#idle.toSorted((a, b) => a.gate.pass - b.gate.pass)) {
      if (!lane.gate.take(this)) continue;
      this.#idle.splice(this.#idle.indexOf(lane), 1);
      return lane;
    }
    return undefined;
  }

  #dropExpired(members: readonly PendingRequest[], emptyRow: EmptyRow | undefined): readonly PendingRequest[] {
    const nowMs = this.#clock.now();
    const stays = (member: PendingRequest) => member.empty || (!member.settled && member.call.deadlineMs > nowMs);
    if (members.every(stays)) return members;
    for (const member of members) if (!member.settled && !stays(member)) this.#expire(member);
    if (emptyRow) return members.map((member) => (stays(member) ? member : emptyRow()));
    return members.filter(stays);
  }

  #expire(member: PendingRequest): void {
    const { call } = member;
    const text = `deadline exceeded: not started within ${Math.round(call.deadlineMs - call.arrivalMs)} ms`;
    const error = new InferError('DEADLINE_EXCEEDED', text);
    this.#answers.fail(member, error);
    call.cancel(error);
  }

  #run(lane: Lane, batch: Batch): void {
    const plan = this.#plan;
    if (lane.plan !== plan) {
      lane.assembler = createAssembler(plan);
      lane.plan = plan;
    }
    this.#running.add(batch);
    this.#order?.begin(batch.members);
    for (const { call } of batch.members) call.started = true;
    const startedMs = this.#clock.now();
    let assembledMs = startedMs;
    let members: readonly RunMember[] = batch.members;
    let result: Promise<Tensor[]>;
    try {
      if (this.#sizes && !batch.exact) members = this.#fill(batch, this.#sizes);
      const inputs = lane.assembler.assemble(members, batch.runRows);
      assembledMs = this.#clock.now();
      const alone = this.#answers.count === 1 && lane.gate.runs === 1;
      batch.run = lane.instance.run(inputs, wantedOutputs(plan, batch.members), alone);
      result = batch.run.result;
    } catch (error) {
      result = Promise.reject(InferError.from(error, `model '${plan.model}' could not be run`));
    }
    result.then(
      (outputs) => this.#finished(lane, batch, outputs, { plan, members, startedMs, assembledMs }),
      (error: unknown) => this.#failed(lane, batch, error, plan),
    );
  }

  #fill(batch: Batch, sizes: readonly number[]): readonly RunMember[] {
    batch.runRows = filledRows(batch.rows, sizes);
    const [first] = batch.members;
    if (!first || batch.runRows === batch.rows) return batch.members;
    const row = firstRowOf(first);
    return [...batch.members, ...Array.from({ length: batch.runRows - batch.rows }, () => row)];
  }

  /** The instance gets its next batch before the answers of this one are taken apart. */
  #finished(lane: Lane, batch: Batch, outputs: readonly Tensor[], notes: RunNotes): void {
    const ranMs = this.#clock.now();
    this.#release(lane, batch);
    const splitFromMs = this.#clock.now();
    let split: Tensor[][];
    try {
      split = splitBatch(notes.plan, outputs, notes.members);
    } catch (error) {
      this.#recover(batch, error, notes.plan);
      return;
    }
    const splitMs = this.#clock.now();
    const free = freeWhenAnswered(outputs, batch.members);
    this.#answer(batch, split, notes, ranMs, splitMs - splitFromMs, splitMs, free);
  }

  #answer(
    batch: Batch,
    split: readonly Tensor[][],
    { plan, startedMs, assembledMs }: RunNotes,
    ranMs: number,
    splitDurationMs: number,
    nowMs: number,
    free: (() => void) | undefined,
  ): void {
    const { model, version, identity, padding } = plan;
    const share = padding && paddingShareOf(plan, padding, batch.members);
    this.#onRan?.(batch, ranMs - startedMs, startedMs);
    const computeInputUs = (assembledMs - startedMs) * 1000;
    const computeInferUs = (ranMs - assembledMs) * 1000;
    const computeOutputUs = splitDurationMs * 1000;
    let executions: 0 | 1 = 1;
    for (let i = 0; i < batch.members.length; i += 1) {
      const member = batch.members[i];
      const outputs = split[i];
      if (!member || !outputs || member.settled) continue;
      const timings = {
        queueUs: (startedMs - member.enqueuedMs) * 1000,
        computeInputUs,
        computeInferUs,
        computeOutputUs,
        batchSize: batch.runRows,
        executions,
        release: batch.release,
      };
      executions = 0;
      const own = share ? { ...timings, ...share } : timings;
      const response = { model, version, outputs, parameters: NO_PARAMETERS, timings: own, identity };
      this.#answers.succeed(member, free ? new LargeResponse(response, free) : response, nowMs);
    }
  }

  #failed(lane: Lane, batch: Batch, error: unknown, plan: ModelPlan): void {
    this.#release(lane, batch, () => this.#recover(batch, error, plan));
  }

  #release(lane: Lane, batch: Batch, beforeNext?: () => void): void {
    batch.run = undefined;
    this.#running.delete(batch);
    this.#idle.push(lane);
    beforeNext?.();
    lane.gate.give(this);
    this.wake();
    if (this.#running.size === 0) this.#onQuiet?.();
  }

  /** @param plan the one that the batch ran by */
  #recover(batch: Batch, cause: unknown, plan: ModelPlan): void {
    const error = InferError.from(cause, `model '${this.#plan.model}' failed while it ran`);
    const filled = batch.runRows > batch.rows && error instanceof RowMismatch;
    if (error instanceof LengthMismatch) {
      this.#stopPadding(error);
    } else if (filled) {
      this.#stopFilling(error);
    } else if (error instanceof RowMismatch && batch.members.length > 1 && this.#mergeable) {
      this.#mergeable = false;
      this.#logger.warn({ model: this.#plan.model, reason: error.message }, 'model cannot batch, requests run alone');
    }
    const { emptyRow } = batch;
    const isShort = error.code === 'RESOURCE_EXHAUSTED';
    if (isShort && batch.runRows > 1) this.#onShort?.(batch);
    if (isShort && batch.runRows > batch.rows) {
      this.#retries.push(new Batch(batch.members, batch.release, this.#onLeave, emptyRow)); // without what filled it up
      this.#startRetries();
      return;
    }
    const { retry, fail } = planRecovery(batch.members, error, filled || plan !== this.#plan, emptyRow);
    for (const members of retry) this.#retries.push(new Batch(members, batch.release, this.#onLeave, emptyRow));
    for (const member of fail) {
      if (error.code === 'INTERNAL') {
        this.#logger.error({ model: this.#plan.model, requestId: member.call.id, err: error }, 'run failed');
      }
      this.#answers.fail(member, error);
    }
    this.#startRetries();
  }

  /** Rows cannot be told apart, so those that nobody asked for are not put in; requests run alone from now on. */
  #stopFilling({ message }: RowMismatch): void {
    if (!this.#sizes) return;
    this.#sizes = undefined;
    this.#mergeable = false;
    const fields = { model: this.#plan.model, reason: message };
    this.#logger.warn(fields, 'model cannot batch, runs are not filled up and requests run alone');
  }

  /** Requests run alone from now on: those that wait were grouped to be padded. */
  #stopPadding(error: LengthMismatch): void {
    const { padding, model, version } = this.#plan;
    if (!padding?.active) return;
    this.#plan = { ...this.#plan, padding: { ...padding, active: false } };
    this.#mergeable = false;
    const event = 'padding gives outputs of another length and is switched off, requests run alone';
    this.#logger.warn({ model, version, reason: error.message }, event);
    for (const { members, release } of this.#retries.splice(0)) {
      for (const member of members)
        if (!member.settled) this.#retries.push(new Batch([member], release, this.#onLeave));
    }
  }

  #startRetries(): void {
    for (let batch = this.#retries[0]; batch && this.#idle.length > 0; batch = this.#retries[0]) {
      if (batch.live === 0) {
        this.#retries.shift();
        for (const member of batch.members) if (!member.settled) this.#answers.fail(member, NOBODY_WAITS);
        continue;
      }
      if (!this.reserve()) return;
      this.#retries.shift();
      this.start(batch.members, batch.release, batch.emptyRow, true);
    }
  }
}
