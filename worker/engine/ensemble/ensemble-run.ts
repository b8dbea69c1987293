import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import { NO_PARAMETERS, rowsOf } from '../../../shared/infer/request.ts';
import type { InferResponse, StepRecord } from '../../../shared/infer/response.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { OpenRequests } from '../schedule/open-requests.ts';
import type { OwnBatch, PendingRequest } from '../schedule/pending-request.ts';
import type { Binding, BoundStep } from './bind-members.ts';
import type { EnsembleIdentity } from './ensemble-identity.ts';
import type { RunPlan } from './run-plan.ts';
import { explainStepError } from './step-error.ts';
import type { GateWaiter, StepGates } from './step-gates.ts';
import { collectOutputs, giveNoRows, giveOutputs, hasNoRows, type Slots, takeInputs } from './step-tensors.ts';

/** What the requests of an ensemble share. */
export interface RunContext {
  readonly ready: ReadyModel;
  /** Position of each tensor of the ensemble. */
  readonly slots: ReadonlyMap<string, number>;
  readonly open: OpenRequests;
  readonly clock: Clock;
  /** undefined without a limit. */
  readonly gates: StepGates | undefined;
  /** Set when somebody keeps answers of the ensemble. */
  readonly identity: EnsembleIdentity | undefined;
  /** No step of the run is in flight any more, and it has been answered. */
  readonly onOver: (run: EnsembleRun) => void;
}

/**
 * One request of an ensemble. A step is sent to its member as soon as its last input is there, as an ordinary request with
 * its own call.
 *
 * The run is *going* until all its steps have answered, or until it is *stopped*: a step failed, the caller left or the
 * ensemble closes. A stopped run sends nothing more and cancels what is in flight; when that has come back it is *over*.
 * Members stay pinned until then, and the request is answered then, unless its caller is gone.
 */
export class EnsembleRun implements OwnBatch, GateWaiter {
  readonly #context: RunContext;
  readonly #item: PendingRequest;
  readonly #plan: RunPlan;
  readonly #binding: Binding;
  readonly #releases: readonly (() => void)[];
  readonly #slots: Slots;
  /** By step: how many others it still waits for. */
  readonly #waits: number[];
  /** By step, while it is in flight. */
  readonly #calls: (Call | undefined)[];
  #inFlight = 0;
  #left: number;
  /** Set once the run is stopped. */
  #error: InferError | undefined;
  #queueUs = 0;
  #computeInputUs = 0;
  #computeInferUs = 0;
  #computeOutputUs = 0;
  readonly #steps: StepRecord[] = [];
  /** By step: what ran, where the ensemble has an identity. */
  readonly #identities: (string | undefined)[] = [];

  /** Takes over the pins. */
  constructor(context: RunContext, item: PendingRequest, plan: RunPlan, binding: Binding, pins: (() => void)[]) {
    this.#context = context;
    this.#item = item;
    this.#plan = plan;
    this.#binding = binding;
    this.#releases = pins;
    this.#slots = new Array<Tensor | undefined>(context.slots.size);
    this.#waits = plan.waits.slice();
    this.#calls = new Array<Call | undefined>(plan.waits.length);
    this.#left = plan.count;
  }

  start(): void {
    for (const tensor of this.#item.inputs) {
      const slot = this.#context.slots.get(tensor.name);
      if (slot !== undefined) this.#slots[slot] = tensor;
    }
    for (const index of this.#plan.first) this.#begin(index);
  }

  /** The caller is gone. */
  leave(): void {
    this.abort(this.#item.call.error ?? new InferError('CANCELLED', 'the request was cancelled'));
  }

  abort(error: InferError): void {
    if (this.#error) return;
    this.#error = error;
    this.#context.gates?.withdraw(this);
    for (const call of this.#calls) call?.cancel(leftBehind(this.#context.ready.name));
    this.#endIfQuiet();
  }

  pass(index: number): void {
    const step = this.#binding.steps[index];
    if (step) this.#send(step, takeInputs(step, this.#slots));
  }

  #begin(index: number): void {
    const step = this.#binding.steps[index];
    if (!step || this.#error) return;
    let inputs: Tensor[];
    try {
      inputs = takeInputs(step, this.#slots);
    } catch (error) {
      this.#fail(step, error);
      return;
    }
    if (hasNoRows(step, inputs)) {
      giveNoRows(step, this.#slots);
      this.#done(index);
    } else if (this.#context.gates?.enter(index, this) ?? true) {
      this.#send(step, inputs);
    }
  }

  #send(bound: BoundStep, inputs: Tensor[]): void {
    const { step, served } = bound;
    const { id, parameters } = this.#item.request;
    const call = this.#item.call.part(this.#context.clock.now());
    this.#calls[step.index] = call;
    this.#inFlight += 1;
    const outputs = this.#plan.outputNames[step.index] ?? [];
    const rows = rowsOf(served.ready.maxBatchSize > 0, inputs);
    served.scheduler
      .enqueue({ id, model: step.model, version: served.ready.version, inputs, outputs, parameters }, call)
      .then(
        (response) => this.#answered(bound, response, rows),
        (error: unknown) => this.#refused(bound, error),
      );
  }

  #answered(bound: BoundStep, response: InferResponse, rows: number): void {
    const { outputs, timings } = response;
    const { index } = bound.step;
    const startedMs = this.#calls[index]?.arrivalMs ?? 0;
    this.#cameBack(index);
    const requestUs = (this.#context.clock.now() - startedMs) * 1000;
    this.#steps.push({ model: response.model, version: response.version, rows, requestUs, timings });
    if (response.steps) this.#steps.push(...response.steps);
    if (this.#context.identity) this.#identities[index] = response.identity;
    if (this.#error) {
      this.#endIfQuiet();
      return;
    }
    this.#queueUs += timings.queueUs;
    this.#computeInputUs += timings.computeInputUs;
    this.#computeInferUs += timings.computeInferUs;
    this.#computeOutputUs += timings.computeOutputUs;
    try {
      giveOutputs(bound, this.#plan.outputNames[index] ?? [], outputs, this.#slots);
    } catch (error) {
      this.#fail(bound, error);
      return;
    }
    this.#done(index);
  }

  #refused(bound: BoundStep, error: unknown): void {
    this.#cameBack(bound.step.index);
    if (this.#error) this.#endIfQuiet();
    else this.#fail(bound, error);
  }

  #cameBack(index: number): void {
    this.#calls[index] = undefined;
    this.#inFlight -= 1;
    this.#context.gates?.leave(index);
  }

  #done(index: number): void {
    this.#left -= 1;
    if (this.#left === 0) {
      this.#succeed();
      return;
    }
    for (const next of this.#plan.next[index] ?? []) {
      const waits = (this.#waits[next] ?? 0) - 1;
      this.#waits[next] = waits;
      if (waits === 0) this.#begin(next);
    }
  }

  #succeed(): void {
    const { ready, open, clock } = this.#context;
    const { request, rows } = this.#item;
    let outputs: Tensor[];
    try {
      outputs = collectOutputs(this.#binding, request.outputs, ready.maxBatchSize > 0, this.#slots);
    } catch (error) {
      const { code, message } = InferError.from(error);
      this.abort(new InferError(code, `ensemble '${ready.name}', ${message}`, { cause: error }));
      return;
    }
    const timings = {
      queueUs: this.#queueUs,
      computeInputUs: this.#computeInputUs,
      computeInferUs: this.#computeInferUs,
      computeOutputUs: this.#computeOutputUs,
      batchSize: rows,
      executions: 1,
      release: 'direct',
    } as const;
    const { name: model, version } = ready;
    const response = {
      model,
      version,
      outputs,
      parameters: NO_PARAMETERS,
      timings,
      steps: this.#steps,
      identity: this.#identity(),
    };
    this.#over();
    open.succeed(this.#item, response, clock.now());
  }

  /** Steps that did not run would have run on the members that are pinned. */
  #identity(): string | undefined {
    const { identity } = this.#context;
    return identity?.of(
      this.#binding.steps.map(({ served }, index) => this.#identities[index] ?? served.ready.identity),
    );
  }

  #fail(bound: BoundStep, cause: unknown): void {
    this.abort(explainStepError(this.#context.ready.name, bound, this.#slots, this.#item.call, cause));
  }

  #endIfQuiet(): void {
    if (this.#inFlight > 0 || !this.#error) return;
    this.#over();
    this.#context.open.fail(this.#item, this.#error); // changes nothing when the caller is gone
  }

  #over(): void {
    for (const release of this.#releases) release();
    this.#context.onOver(this);
  }
}

/** What the other steps in flight are told when one has failed or the caller is gone; nobody waits for their answer. */
function leftBehind(ensemble: string): InferError {
  return new InferError('CANCELLED', `the request of ensemble '${ensemble}' that the step belongs to is over`);
}
