import { create } from '@bufbuild/protobuf';
import { InferError } from '../../shared/errors.ts';
import { Call } from '../../shared/infer/call.ts';
import type { ModelCatalog, ModelState } from '../../shared/infer/ports.ts';
import { type InferRequest, NO_PARAMETERS } from '../../shared/infer/request.ts';
import type { InferResponse } from '../../shared/infer/response.ts';
import { createReadyModel } from '../../shared/model/create-ready-model.ts';
import type { ReadyModel } from '../../shared/model/ready-model.ts';
import { ModelConfigSchema } from '../../shared/proto/generated/model_config_pb.ts';
import type { Tensor } from '../../shared/tensor/tensor.ts';

export interface FakeModel {
  readonly name: string;
  readonly version?: string;
  readonly maxBatchSize?: number;
  /** As the config counts them; absent as in a config that was never completed. */
  readonly instances?: number;
  readonly files?: Readonly<Record<string, string>>;
}

/** A request that reached the engine and can be answered by hand. */
export interface HeldRun {
  readonly request: InferRequest;
  readonly call: Call;
  /** The call begins to run: from here it cannot be given back. */
  start(): void;
  answer(): void;
  fail(error: InferError): void;
}

/**
 * An engine that gives back input 0 as its output. `hold()` makes requests wait until they are answered by hand; calls
 * that end before are rejected as a real engine does.
 */
export class FakeEngine {
  readonly catalog: FakeCatalog;
  readonly seen: InferRequest[] = [];
  readonly held: HeldRun[] = [];
  holding = false;

  constructor(models: readonly FakeModel[]) {
    this.catalog = new FakeCatalog(models);
  }

  readonly infer = (request: InferRequest, call: Call): Promise<InferResponse> => {
    this.seen.push(request);
    if (!this.holding) {
      call.started = true;
      return Promise.resolve(echo(request));
    }
    return new Promise((resolve, reject) => {
      call.onCancel(reject);
      this.held.push({
        request,
        call,
        start: () => (call.started = true),
        answer: () => resolve(echo(request)),
        fail: reject,
      });
    });
  };

  /** Answers everything that waits, and what comes from now on at once. */
  release(): void {
    this.holding = false;
    for (const run of this.held.splice(0)) run.answer();
  }
}

export class FakeCatalog implements ModelCatalog {
  readonly #models: ReadyModel[];
  readonly #broken: ModelState[] = [];

  constructor(models: readonly FakeModel[]) {
    this.#models = models.map(readyModel);
  }

  add(model: FakeModel): void {
    this.#models.push(readyModel(model));
  }

  addBroken(name: string, reason: string): void {
    this.#broken.push({ name, version: '1', state: 'UNAVAILABLE', reason });
  }

  remove(name: string): void {
    const index = this.#models.findIndex((model) => model.name === name);
    this.#models.splice(index, 1);
  }

  resolve(name: string, version: string): ReadyModel {
    const model = this.#models.find((each) => each.name === name && (version === '' || version === each.version));
    if (!model) throw new InferError('NOT_FOUND', `unknown model '${name}'`);
    return model;
  }

  list(): readonly ModelState[] {
    const ready = this.#models.map(({ name, version }): ModelState => ({ name, version, state: 'READY', reason: '' }));
    return [...ready, ...this.#broken];
  }

  ready(): boolean {
    return this.#broken.length === 0;
  }
}

function readyModel({ name, version = '1', maxBatchSize = 0, instances, files = {} }: FakeModel): ReadyModel {
  const config = create(ModelConfigSchema, {
    name,
    backend: 'onnxruntime',
    maxBatchSize,
    instanceGroup: instances === undefined ? [] : [{ count: instances }],
    input: [{ name: 'x', dataType: 2, dims: [-1n] }],
    output: [{ name: 'y', dataType: 2, dims: [-1n] }],
  });
  return createReadyModel({
    config,
    version,
    versions: [version],
    labels: new Map(),
    files: {
      names: Object.keys(files),
      read: (file) => Promise.resolve(Buffer.from(files[file] ?? '')),
    },
  });
}

export function echo(request: InferRequest): InferResponse {
  const outputs = request.inputs.slice(0, 1).map((input): Tensor => ({ ...input, name: 'y' }));
  return {
    model: request.model,
    version: '1',
    outputs,
    parameters: request.parameters,
    timings: {
      queueUs: 1,
      computeInputUs: 2,
      computeInferUs: 3,
      computeOutputUs: 4,
      batchSize: 1,
      executions: 1,
      release: 'direct',
    },
  };
}

/** A UINT8 request of the given bytes. */
export function requestOf(model: string, data: Uint8Array, extra: Partial<InferRequest> = {}): InferRequest {
  const x: Tensor = { name: 'x', datatype: 'UINT8', shape: [data.byteLength], data };
  return { id: '', model, version: '', inputs: [x], outputs: [], parameters: NO_PARAMETERS, ...extra };
}

/** A call that ends by itself after `timeoutMs`, as the service makes them. */
export function callOf(timeoutMs = 10_000): Call {
  const now = performance.now();
  const call = new Call(`call-${Math.random().toString(36).slice(2)}`, now, now + timeoutMs);
  const timer = setTimeout(() => {
    call.cancel(new InferError('DEADLINE_EXCEEDED', `deadline exceeded: no result within ${timeoutMs} ms`));
  }, timeoutMs);
  timer.unref();
  return call;
}
