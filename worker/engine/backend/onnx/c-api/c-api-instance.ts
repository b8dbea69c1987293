import { InferError } from '../../../../../shared/errors.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import type { ModelInstance, Run } from '../../../instance/instance.ts';
import { explainCudaError } from '../gpu/cuda-error.ts';
import { gpuRunError } from '../gpu/gpu-error.ts';
import { isRefusal, runError } from '../ort-error.ts';
import { explainFailure } from '../run-refusals.ts';
import type { Api } from './api.ts';
import type { BoundGraph } from './bound-graph.ts';
import type { Pointer, Status } from './functions.ts';
import { RunFrame } from './run-frame.ts';
import { RunSettings } from './run-settings.ts';
import type { ShortRuns } from './short-runs.ts';
import { assertOk, failureOf, takeFailure } from './status.ts';

/** A session as its instances see it. On the CPU any number of them may run on one at a time. */
export interface SharedSession {
  readonly api: Api;
  readonly pointer: Pointer;
  readonly graph: BoundGraph;
  /** Memory arenas that shrink after every run; '' for none. */
  readonly arenaShrinkage: string;
  /** True once the model gave another shape than its file declares; the library allocates all outputs from then on. */
  shapesDiffer: boolean;
  /** Its runs give way to those of all others, until it serves. */
  background: boolean;
  /** For a model whose short runs may be done on the event loop. */
  readonly short?: ShortRuns | undefined;
  /** The number of the GPU that it runs on; undefined for the CPU. */
  readonly gpu?: number;
}

/** One run at a time on a shared session, on a thread of libuv's pool or, a short one, on the event loop. */
export class CApiInstance implements ModelInstance {
  readonly #session: SharedSession;
  readonly #settings: RunSettings;
  readonly #frame: RunFrame;
  readonly #release: (() => Promise<void>) | undefined;
  readonly #done = (error: Error | null, status: Status) => this.#finish(error, status);
  #active: ActiveRun | undefined;
  #closed: Promise<void> | undefined;

  /**
   * @param release frees the session, where it belongs to this instance alone
   * @throws OrtCallError
   */
  constructor(session: SharedSession, release?: () => Promise<void>) {
    const { api } = session;
    this.#release = release;
    this.#session = session;
    this.#frame = new RunFrame(api, session.pointer, session.graph);
    this.#settings = new RunSettings(api, session.arenaShrinkage, session.gpu);
  }

  run(inputs: readonly Tensor[], outputs: readonly string[], alone = false): Run {
    const run = new ActiveRun((asked) => this.#stop(asked));
    if (this.#closed || this.#active) {
      run.reject(new InferError('INTERNAL', `the instance is ${this.#closed ? 'closed' : 'busy'}`));
      return run;
    }
    this.#active = run;
    // Held until the end: the values may point into the tensors' data.
    run.inputs = inputs;
    for (const { data } of inputs) run.bytes += data.byteLength;
    const { shapesDiffer, background, short } = this.#session;
    try {
      this.#frame.bind(inputs, outputs, !shapesDiffer);
      run.startedMs = performance.now();
      if (!background && short?.allows(run.bytes, alone)) this.#runHere(run, short);
      else this.#start();
    } catch (error) {
      this.#settle(error);
    }
    return run;
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    // Whether the run under way went well is its caller's business; here it only has to be over.
    await this.#active?.result.catch(() => undefined);
    this.#settings.release();
    await this.#release?.();
  }

  #stop(run: ActiveRun): void {
    if (run !== this.#active || run.stopRequested) return;
    run.stopRequested = true;
    const { ort } = this.#session.api;
    assertOk(ort, ort.RunOptionsSetTerminate(this.#settings.pointer));
  }

  #start(): void {
    const { pointer } = this.#settings;
    if (this.#session.background) this.#frame.startInBackground(pointer, this.#done);
    else this.#frame.start(pointer, this.#done);
  }

  /** Others get their turn before what follows it. */
  #runHere(run: ActiveRun, short: ShortRuns): void {
    run.here = true;
    const status = this.#frame.runHere(this.#settings.pointer);
    if (status === null) short.note(run.bytes, performance.now() - run.startedMs, true);
    setImmediate(this.#done, null, status);
  }

  /** Called by koffi when the native call has returned. Nothing may be thrown from here. */
  #finish(error: Error | null, status: Status): void {
    const { ort } = this.#session.api;
    const run = this.#active;
    if (run && !run.here && status === null) {
      this.#session.short?.note(run.bytes, performance.now() - run.startedMs, false);
    }
    try {
      const failure = status === null ? undefined : takeFailure(ort, status);
      if (run?.stopRequested) assertOk(ort, ort.RunOptionsUnsetTerminate(this.#settings.pointer));
      const began = failure === undefined || !isRefusal(failure);
      const mayFitNow = began && this.#settings.noteEnd(failure !== undefined);
      if (error) throw error;
      if (!failure) this.#settle(undefined, this.#frame.collect());
      else if (this.#mayRunAgain(failure.text)) this.#runAgain();
      else if (mayFitNow && !run?.stopRequested && isOfMemory(failure.text)) this.#start();
      else this.#settle(this.#explained(runError(failure, run?.stopRequested ?? false)));
    } catch (failure) {
      this.#settle(failure);
    }
  }

  #explained(error: InferError): InferError {
    const { gpu } = this.#session;
    if (gpu !== undefined && error.code !== 'CANCELLED') return gpuRunError(error, gpu);
    const declared = Array.from(this.#session.graph.inputs.values(), ({ tensor }) => tensor);
    return explainFailure(error, this.#active?.inputs ?? [], declared);
  }

  #mayRunAgain(failureText: string): boolean {
    return this.#frame.hasPreparedOutputs && !this.#active?.stopRequested && SHAPE_DIFFERS.test(failureText);
  }

  /** Once in the life of a session whose file declares a shape that the model does not keep to. */
  #runAgain(): void {
    this.#session.shapesDiffer = true;
    this.#frame.rebindOutputs(this.#frame.releaseOutputs());
    this.#start();
  }

  #settle(error: unknown, outputs: Tensor[] = []): void {
    const run = this.#active;
    this.#active = undefined;
    this.#frame.release();
    if (error === undefined) run?.resolve(outputs);
    else run?.reject(error instanceof InferError ? error : runError(failureOf(error), false));
  }
}

/** How ONNX Runtime says that an output does not fit the memory that it was given. */
const SHAPE_DIFFERS = /pre-allocated output|shape verification failed/i;

function isOfMemory(failureText: string): boolean {
  return explainCudaError(failureText)?.stage === 'memory';
}

class ActiveRun implements Run {
  readonly result: Promise<Tensor[]>;
  resolve: (outputs: Tensor[]) => void = () => undefined;
  reject: (error: InferError) => void = () => undefined;
  inputs: readonly Tensor[] = [];
  /** Of all inputs. */
  bytes = 0;
  startedMs = 0;
  /** Done on the event loop. */
  here = false;
  stopRequested = false;
  readonly #stop: (run: ActiveRun) => void;

  constructor(stop: (run: ActiveRun) => void) {
    this.#stop = stop;
    this.result = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  stop(): void {
    this.#stop(this);
  }
}
