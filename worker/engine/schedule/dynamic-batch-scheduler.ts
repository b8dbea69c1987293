import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse, ReleaseReason } from '../../../shared/infer/response.ts';
import { Executor } from '../execute/executor.ts';
import type { Batch } from '../execute/batch.ts';
import type { BatchLimits } from './batch-policy.ts';
import { decide } from './batch-policy.ts';
import { countForSize } from './batch-sizes.ts';
import type { BatchTuner } from './batch-tuner.ts';
import { GracefulClose } from './close-gracefully.ts';
import { LeveledQueue } from './leveled-queue.ts';
import type { WaitingLine } from './open-requests.ts';
import { OpenRequests } from './open-requests.ts';
import type { PendingRequest } from './pending-request.ts';
import { QueueLevels } from './queue-levels.ts';
import type { QueuePolicy } from './queue-policy.ts';
import { RequestQueue } from './request-queue.ts';
import { RowLimits } from './row-limits.ts';
import type { Scheduler, SchedulerOptions } from './scheduler.ts';
import { comesFirst, type RequestGroup, WaitingGroups } from './waiting-groups.ts';
import { WaitEvidence } from './wait-evidence.ts';
import { WakeTimer } from './wake-timer.ts';

const SEVERAL = 'several';

/** A group that may run now. */
interface Release {
  readonly group: RequestGroup;
  readonly run: number;
  readonly reason: ReleaseReason;
  /** It is not to be filled up to a size: fewer rows than that have found no memory. */
  readonly exact: boolean;
}

/**
 * Lets requests wait for company, by the rules of batch-policy.ts. Requests that fit together form a group with its own
 * order and its own age; whenever an instance is idle, of the groups that the policy releases the one runs whose first
 * request is the most urgent and has waited longest. Without a queue policy a group is first in, first out, and so it
 * waits at most its delay, what came before it, and a run. With one (queue-policy.ts) its requests have levels and may
 * run out of time.
 */
export class DynamicBatchScheduler implements Scheduler, WaitingLine {
  readonly #options: SchedulerOptions;
  readonly #tuner: BatchTuner | undefined;
  readonly #open: OpenRequests;
  readonly #executor: Executor;
  readonly #evidence: WaitEvidence;
  readonly #expiryTimer: WakeTimer;
  readonly #levels: QueueLevels | undefined;
  readonly #waiting: WaitingGroups;
  readonly #rowLimits: RowLimits;
  readonly #end: GracefulClose;
  readonly #defer: (callback: () => void) => void;
  #limits: BatchLimits;
  #companyTimer: WakeTimer;
  #draining = false;
  /** The group of what arrived in this turn. */
  #arrivals: RequestGroup | typeof SEVERAL | undefined;

  /** @param tuner changes the limits while the model runs */
  constructor(options: SchedulerOptions, limits: BatchLimits, policy?: QueuePolicy, tuner?: BatchTuner) {
    const { clock } = options;
    const levels = policy && new QueueLevels(policy);
    this.#options = options;
    this.#limits = limits;
    this.#tuner = tuner;
    this.#defer = options.defer ?? queueMicrotask;
    this.#open = new OpenRequests(options);
    const onRan =
      tuner && ((batch: Batch, runMs: number, startedMs: number) => this.#learn(tuner, batch, runMs, startedMs));
    const onShort = (batch: Batch) => this.#lower(batch);
    this.#executor = new Executor({ ...options, open: this.#open, onRan, onShort }, () => this.#pump());
    this.#rowLimits = new RowLimits(options.plan.maxRows);
    this.#evidence = new WaitEvidence(limits.delayMs);
    this.#companyTimer = new WakeTimer(clock, limits.delayMs, () => this.#pump());
    this.#expiryTimer = new WakeTimer(clock, 1, () => this.#pump());
    this.#levels = levels;
    this.#waiting = new WaitingGroups(
      limits.preferredRows[0] ?? limits.maxRows,
      levels ? (key) => new LeveledQueue(key, levels) : (key) => new RequestQueue(key),
    );
    this.#end = new GracefulClose({
      model: options.plan.model,
      open: this.#open,
      executor: this.#executor,
      clock,
      drain: () => {
        this.#draining = true;
        this.#pump();
      },
      takeWaiting: () => this.#waiting.takeAll(),
    });
  }

  enqueue(request: InferRequest, call: Call): Promise<InferResponse> {
    return this.#open.admit(request, call, this);
  }

  pending(): number {
    return this.#waiting.count;
  }

  open(): number {
    return this.#open.count;
  }

  refusal(call: Call): InferError | undefined {
    return this.#levels?.refusal(this.#options.plan.model, call.priority);
  }

  accept(item: PendingRequest): void {
    this.#evidence.noteArrival(item.groupKey, item.enqueuedMs, this.#open.count > 1);
    const group = this.#waiting.add(item);
    if (this.#arrivals === undefined) {
      this.#arrivals = group;
      this.#defer(() => this.takeIn());
    } else if (this.#arrivals !== group) this.#arrivals = SEVERAL;
    if (item.ticket) this.#awaitExpiry();
  }

  /** After what arrives in one turn, as the requests of a bundle do: otherwise the first would run without the rest. */
  takeIn(): void {
    const group = this.#arrivals;
    if (group === undefined) return;
    this.#arrivals = undefined;
    this.#pump(group === SEVERAL ? undefined : group); // what was decided for other groups still holds
  }

  withdraw(item: PendingRequest): void {
    this.#waiting.remove(item);
  }

  async close(graceMs: number): Promise<boolean> {
    const allClosed = await this.#end.close(graceMs);
    this.#companyTimer.close();
    this.#expiryTimer.close();
    return allClosed;
  }

  #learn(tuner: BatchTuner, batch: Batch, runMs: number, startedMs: number): void {
    const nowMs = this.#options.clock.now();
    let oldestMs = startedMs;
    for (const { enqueuedMs, call, settled } of batch.members) {
      oldestMs = Math.min(oldestMs, enqueuedMs);
      if (!settled) tuner.noteAnswer(nowMs - call.arrivalMs);
    }
    tuner.noteRun(batch.runRows, runMs, startedMs - oldestMs);
    const limits = tuner.review(nowMs);
    if (limits) this.#adopt(limits);
  }

  /** A run has found no memory: those of its shape are to be smaller from now on. */
  #lower({ runRows, members: [first] }: Batch): void {
    if (!first) return;
    const { plan, stats, logger, clock } = this.#options;
    const maxRows = this.#rowLimits.lower(first.groupKey, runRows, clock.now());
    stats.memoryRows = this.#rowLimits.leastRows;
    if (maxRows === undefined) return;
    const shapes = first.inputs.map(({ name, shape }) => `${name} [${shape.slice(1).join(',')}]`).join(', ');
    const fields = { model: plan.model, version: plan.version, rows: runRows, maxRows, shapes: shapes.slice(0, 200) };
    logger.warn(fields, 'a run found no memory, runs of its shape are smaller for now');
  }

  #adopt(limits: BatchLimits): void {
    this.#limits = limits;
    this.#evidence.delayMs = limits.delayMs;
    this.#waiting.ripeRows = limits.preferredRows[0] ?? limits.maxRows;
    this.#companyTimer.close();
    this.#companyTimer = new WakeTimer(this.#options.clock, limits.delayMs, () => this.#pump());
    this.#pump(); // sets the timer for those who wait
  }

  #pump(only?: RequestGroup): void {
    if (this.#levels) this.#expire(this.#levels);
    while (this.#waiting.count > 0 && this.#executor.idle) {
      const nowMs = this.#options.clock.now();
      this.#promoteAged(nowMs);
      const release = this.#choose(nowMs, only);
      if (!release || !this.#executor.reserve()) return;
      const { group, run, reason, exact } = release;
      const waitedMs = nowMs - group.oldestMs;
      const members = this.#waiting.take(group, run);
      this.#evidence.noteRelease(members.length, reason, waitedMs);
      this.#levels?.noteRun();
      this.#executor.start(members, reason, undefined, exact);
    }
  }

  /** Requests whose time in the queue is over leave it, or move behind the others. */
  #expire(levels: QueueLevels): void {
    if (levels.nextExpiryMs === Infinity) return;
    const nowMs = this.#options.clock.now();
    for (let expired = levels.takeExpired(nowMs); expired; expired = levels.takeExpired(nowMs)) {
      const { item, group } = expired.ticket;
      if (expired.delays) {
        this.#waiting.update(group);
      } else {
        this.#waiting.remove(item);
        this.#open.fail(item, expiryError(this.#options.plan.model, nowMs - item.enqueuedMs));
      }
    }
    this.#awaitExpiry();
  }

  #awaitExpiry(): void {
    const expiryMs = this.#levels?.nextExpiryMs ?? Infinity;
    if (expiryMs === Infinity) return;
    const nowMs = this.#options.clock.now();
    this.#expiryTimer.arm(nowMs, expiryMs - nowMs);
  }

  #promoteAged(nowMs: number): void {
    const group = this.#levels?.promoteAged(nowMs, this.#limits.maxRows);
    if (group) this.#waiting.update(group);
  }

  /** The group to run now; undefined when all of them are to wait, and then the timer is set. */
  #choose(nowMs: number, only: RequestGroup | undefined): Release | undefined {
    const first = only ?? this.#waiting.first;
    let chosen = first && this.#consider(first, nowMs);
    if (chosen || only) return chosen;
    // In the order of arrival the first group is the oldest: where its delay is not over, no other's is.
    const all = this.#levels !== undefined || this.#rowLimits.any; // a group of a limited shape is full before it is ripe
    for (const group of all ? this.#waiting.all : this.#waiting.ripe) {
      if (group === first || (chosen && comesFirst(chosen.group, group))) continue;
      chosen = this.#consider(group, nowMs) ?? chosen;
    }
    return chosen;
  }

  #consider(group: RequestGroup, nowMs: number): Release | undefined {
    if (group.count === 0) return undefined;
    const limits = this.#limitsFor(group, nowMs);
    const exact = limits !== this.#limits;
    if (limits.maxRows === 1 || !this.#executor.mergeable) return { group, run: 1, reason: 'direct', exact };
    const decision = decide(group, nowMs, limits, {
      patient: this.#evidence.patient,
      draining: this.#draining,
      othersWait: this.#waiting.count > group.count,
    });
    if ('run' in decision) {
      const { sizes } = this.#options;
      const { run, reason } = decision;
      return { group, run: sizes && !exact ? countForSize(group, run, sizes) : run, reason, exact };
    }
    this.#companyTimer.arm(nowMs, decision.waitMs);
    return undefined;
  }

  #limitsFor({ key }: RequestGroup, nowMs: number): BatchLimits {
    if (!this.#rowLimits.any) return this.#limits;
    const rows = this.#rowLimits.rowsFor(key, nowMs);
    this.#options.stats.memoryRows = this.#rowLimits.leastRows;
    if (rows >= this.#limits.maxRows) return this.#limits;
    const preferredRows = this.#limits.preferredRows.filter((preferred) => preferred <= rows);
    return { ...this.#limits, maxRows: rows, preferredRows };
  }
}

function expiryError(model: string, waitedMs: number): InferError {
  const text = `Request timeout expired: model '${model}' did not begin to run it within ${Math.round(waitedMs)} ms`;
  return new InferError('UNAVAILABLE', text, { refusedAt: 'queue' });
}
