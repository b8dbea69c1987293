import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import type { ModelStats } from '../../../shared/infer/model-stats.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { EnsembleGraph } from '../../../shared/model/ensemble-graph.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { createModelPlan } from '../batch/model-plan.ts';
import type { DeadlineSweep } from '../schedule/deadline-sweep.ts';
import { Grace } from '../schedule/grace.ts';
import type { WaitingLine } from '../schedule/open-requests.ts';
import { OpenRequests } from '../schedule/open-requests.ts';
import type { PendingRequest } from '../schedule/pending-request.ts';
import type { Scheduler } from '../schedule/scheduler.ts';
import type { MemberSource } from '../served-model.ts';
import type { Binding } from './bind-members.ts';
import { bindMembers } from './bind-members.ts';
import { EnsembleIdentity } from './ensemble-identity.ts';
import type { RunContext } from './ensemble-run.ts';
import { EnsembleRun } from './ensemble-run.ts';
import type { MemberList } from './find-members.ts';
import { findMembers, listMembers } from './find-members.ts';
import type { RunPlan } from './run-plan.ts';
import { planRun } from './run-plan.ts';
import { StepGates } from './step-gates.ts';

/** Choices of outputs whose plans are kept; clients have one or two. */
const MAX_PLANS = 64;

export interface EnsembleOptions {
  readonly ready: ReadyModel;
  /** Sound, and of the config of `ready`. */
  readonly graph: EnsembleGraph;
  readonly members: MemberSource;
  readonly stats: ModelStats;
  /** Most requests at once; more are refused. Their steps are bounded by the queues of the members besides. */
  readonly maxQueueSize: number;
  readonly deadlines: DeadlineSweep;
  readonly clock: Clock;
}

/**
 * Runs requests through the steps of an ensemble. It never waits itself: what runs when, and together with whom, is
 * decided by the schedulers of the members.
 */
export class EnsembleScheduler implements Scheduler {
  readonly #options: EnsembleOptions;
  readonly #list: MemberList;
  readonly #open: OpenRequests;
  readonly #line: WaitingLine;
  readonly #gates: StepGates | undefined;
  readonly #context: RunContext;
  readonly #runs = new Set<EnsembleRun>();
  readonly #all: RunPlan;
  readonly #plans = new Map<string, RunPlan>();
  #binding: Binding | undefined;
  readonly #grace: Grace;
  #closed: Promise<boolean> | undefined;

  constructor(options: EnsembleOptions) {
    const { ready, graph, clock } = options;
    this.#options = options;
    this.#grace = new Grace(clock);
    this.#list = listMembers(graph);
    const plan = { ...createModelPlan(ready), oneGroup: true }; // nothing is merged here, so no group is worked out
    this.#open = new OpenRequests({ ...options, plan });
    this.#line = {
      pending: () => this.#open.count,
      refusal: () => undefined, // an ensemble has no queue policy
      accept: (item) => this.#accept(item),
      withdraw: () => {}, // an accepted request is in a run at once, which is told instead
    };
    this.#gates = graph.maxInflight > 0 ? new StepGates(graph.maxInflight, graph.steps.length) : undefined;
    this.#context = {
      ready,
      slots: new Map([...graph.tensors.values()].map(({ name, index }) => [name, index])),
      open: this.#open,
      clock,
      gates: this.#gates,
      identity: ready.identity === undefined ? undefined : new EnsembleIdentity(ready.config),
      onOver: (run) => this.#runs.delete(run),
    };
    this.#all = planRun(
      graph,
      ready.outputs.map(({ name }) => name),
    );
  }

  enqueue(request: InferRequest, call: Call): Promise<InferResponse> {
    return this.#open.admit(request, call, this.#line);
  }

  /** Those that `max_inflight_requests` holds back. What waits at a member is counted there. */
  pending(): number {
    return this.#gates?.waiting ?? 0;
  }

  open(): number {
    return this.#open.count;
  }

  close(graceMs: number): Promise<boolean> {
    this.#grace.shorten(graceMs);
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<boolean> {
    this.#open.close(() => this.#grace.notice());
    await this.#grace.until(() => this.#open.count === 0);
    const text = `model '${this.#options.ready.name}' was unloaded before the request was answered`;
    for (const run of [...this.#runs]) run.abort(new InferError('UNAVAILABLE', text));
    return true;
  }

  #accept(item: PendingRequest): void {
    let run: EnsembleRun;
    try {
      run = this.#prepare(item);
    } catch (error) {
      this.#open.fail(item, InferError.from(error));
      return;
    }
    item.batch = run;
    this.#runs.add(run);
    run.start();
  }

  /** All members are taken at once, so that the request meets one version of each. */
  #prepare(item: PendingRequest): EnsembleRun {
    const { ready, graph, members: source } = this.#options;
    const members = findMembers(ready.name, this.#list, source);
    if (!this.#binding || !sameMembers(this.#binding.members, members)) {
      this.#binding = bindMembers(ready, graph, this.#list, members);
    }
    const plan = this.#planFor(item.request.outputs);
    const pins = members.map((member) => member.pin());
    return new EnsembleRun(this.#context, item, plan, this.#binding, pins);
  }

  #planFor(outputs: readonly string[]): RunPlan {
    const { ready, graph } = this.#options;
    if (outputs.length === 0 || outputs.length === ready.outputs.length) return this.#all; // no name comes twice
    const key = outputs.join('\n');
    let plan = this.#plans.get(key);
    if (!plan) {
      if (this.#plans.size >= MAX_PLANS) this.#plans.clear();
      plan = planRun(graph, outputs);
      this.#plans.set(key, plan);
    }
    return plan;
  }
}

function sameMembers(a: Binding['members'], b: Binding['members']): boolean {
  for (let i = 0; i < a.length; i += 1) if (a[i] !== b[i]) return false;
  return true;
}
