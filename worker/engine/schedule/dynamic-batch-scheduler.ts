import type { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse, ReleaseReason } from '../../../shared/infer/response.ts';
import { Executor } from '../execute/executor.ts';
import type { BatchLimits } from './batch-policy.ts';
import { decide } from './batch-policy.ts';
import { closeGracefully } from './close-gracefully.ts';
import type { WaitingLine } from './open-requests.ts';
import { OpenRequests } from './open-requests.ts';
import type { PendingRequest } from './pending-request.ts';
import { RequestQueue } from './request-queue.ts';
import type { Scheduler, SchedulerOptions } from './scheduler.ts';
import { WaitEvidence } from './wait-evidence.ts';
import { WakeTimer } from './wake-timer.ts';

/** A group that may run now. */
interface Release {
  readonly group: RequestQueue;
  readonly run: number;
  readonly reason: ReleaseReason;
}

/**
 * Lets requests wait for company, by the rules of batch-policy.ts. Requests that fit together form a group with its own
 * queue and its own age; whenever an instance is idle, the group whose oldest request has waited longest runs among those
 * that the policy releases. So order is kept within a group, and a group waits at most its delay, what came before it,
 * and a run.
 */
export class DynamicBatchScheduler implements Scheduler, WaitingLine {
  readonly #options: SchedulerOptions;
  readonly #limits: BatchLimits;
  readonly #open: OpenRequests;
  readonly #executor: Executor;
  readonly #evidence: WaitEvidence;
  readonly #timer: WakeTimer;
  readonly #groups = new Map<string, RequestQueue>();
  #waiting = 0;
  #draining = false;

  constructor(options: SchedulerOptions, limits: BatchLimits) {
    this.#options = options;
    this.#limits = limits;
    this.#open = new OpenRequests(options);
    this.#executor = new Executor({ ...options, open: this.#open }, () => this.#pump());
    this.#evidence = new WaitEvidence(limits.delayMs);
    this.#timer = new WakeTimer(options.clock, limits.delayMs, () => this.#pump());
  }

  enqueue(request: InferRequest, call: Call): Promise<InferResponse> {
    return this.#open.admit(request, call, this);
  }

  pending(): number {
    return this.#waiting;
  }

  accept(item: PendingRequest): void {
    this.#evidence.noteArrival(item.groupKey, item.enqueuedMs, this.#open.count > 1);
    let group = this.#groups.get(item.groupKey);
    if (!group) {
      group = new RequestQueue();
      this.#groups.set(item.groupKey, group);
    }
    group.push(item);
    this.#waiting += 1;
    this.#pump(group); // what was decided for other groups still holds
  }

  withdraw(item: PendingRequest): void {
    const group = this.#groups.get(item.groupKey);
    if (!group) return;
    group.remove(item);
    this.#waiting -= 1;
    this.#forgetIfEmpty(item.groupKey, group);
  }

  async close(graceMs: number): Promise<boolean> {
    const empty = this.#open.close();
    this.#draining = true;
    this.#pump();
    const parts = { model: this.#options.plan.model, open: this.#open, executor: this.#executor };
    const clock = this.#options.clock;
    const allClosed = await closeGracefully({ ...parts, clock }, empty, graceMs, () => this.#takeAll());
    this.#timer.close();
    return allClosed;
  }

  #pump(only?: RequestQueue): void {
    while (this.#waiting > 0 && this.#executor.idle) {
      const nowMs = this.#options.clock.now();
      const release = this.#choose(nowMs, only);
      if (!release || !this.#executor.reserve()) return;
      const { group, run, reason } = release;
      const oldest = group.head;
      const members = group.take(run);
      this.#waiting -= members.length;
      if (oldest) {
        this.#evidence.noteRelease(members.length, reason, nowMs - oldest.enqueuedMs);
        this.#forgetIfEmpty(oldest.groupKey, group);
      }
      this.#executor.start(members, reason);
    }
  }

  /** The group to run now; undefined when all of them are to wait, and then the timer is set. */
  #choose(nowMs: number, only: RequestQueue | undefined): Release | undefined {
    if (only) return this.#consider(only, nowMs);
    let chosen: Release | undefined;
    for (const group of this.#groups.values()) {
      const release = this.#consider(group, nowMs);
      if (release && (!chosen || ageOf(release.group, nowMs) > ageOf(chosen.group, nowMs))) chosen = release;
    }
    return chosen;
  }

  #consider(group: RequestQueue, nowMs: number): Release | undefined {
    if (group.count === 0) return undefined;
    if (!this.#executor.mergeable) return { group, run: 1, reason: 'direct' };
    const decision = decide(group, nowMs, this.#limits, {
      patient: this.#evidence.patient,
      draining: this.#draining,
      othersWait: this.#waiting > group.count,
    });
    if ('run' in decision) return { group, ...decision };
    this.#timer.arm(nowMs, decision.waitMs);
    return undefined;
  }

  #forgetIfEmpty(key: string, group: RequestQueue): void {
    if (group.count === 0 && key !== '') this.#groups.delete(key); // '' is the only group of models of fixed shapes
  }

  #takeAll(): PendingRequest[] {
    const all = [...this.#groups.values()].flatMap((group) => group.take(group.count));
    this.#groups.clear();
    this.#waiting = 0;
    return all;
  }
}

function ageOf(group: RequestQueue, nowMs: number): number {
  return group.head ? nowMs - group.head.enqueuedMs : 0;
}
