import { create } from '@bufbuild/protobuf';
import { InferError } from '../../shared/errors.ts';
import type { MeasuredDispatcher } from '../../producer/service/services.ts';
import type { Call } from '../../shared/infer/call.ts';
import { ModelStats } from '../../shared/infer/model-stats.ts';
import { controlRefused } from '../../shared/infer/not-served.ts';
import type { ModelCatalog, ModelControl, ModelState } from '../../shared/infer/ports.ts';
import { type InferRequest, NO_PARAMETERS } from '../../shared/infer/request.ts';
import type { InferResponse, Timings } from '../../shared/infer/response.ts';
import { assertRequestFits } from '../../shared/infer/validate-request.ts';
import type { ReadyModel, TensorSpec } from '../../shared/model/ready-model.ts';
import { ModelConfigSchema } from '../../shared/proto/generated/model_config_pb.ts';
import type { Datatype } from '../../shared/tensor/datatype.ts';
import type { Tensor } from '../../shared/tensor/tensor.ts';

export function fakeSpec(name: string, datatype: Datatype, shape: readonly number[], more: Partial<TensorSpec> = {}) {
  return { name, datatype, shape, modelShape: shape, optional: false, labels: [], ...more } satisfies TensorSpec;
}

/** A model as the catalog gives it; one input x and one output y, [-1,-1] FP32 with batches of 8, unless told otherwise. */
export function fakeModel(name: string, more: Partial<ReadyModel> = {}): ReadyModel {
  return {
    name,
    version: '1',
    versions: ['1'],
    platform: 'onnxruntime_onnx',
    maxBatchSize: 8,
    inputs: [fakeSpec('x', 'FP32', [-1, -1])],
    outputs: [fakeSpec('y', 'FP32', [-1, -1])],
    config: create(ModelConfigSchema, { name, platform: 'onnxruntime_onnx', maxBatchSize: more.maxBatchSize ?? 8 }),
    files: {
      names: [],
      read: (file) => Promise.reject(new InferError('NOT_FOUND', `no file ${file}`)),
    },
    ...more,
  };
}

/** An identity model of one datatype. */
export function fakeIdentity(name: string, datatype: Datatype, more: Partial<ReadyModel> = {}): ReadyModel {
  const shape = [-1, -1];
  return fakeModel(name, {
    inputs: [fakeSpec('x', datatype, shape)],
    outputs: [fakeSpec('y', datatype, shape)],
    ...more,
  });
}

/** Of a run that took no time. */
export const NO_TIME: Timings = {
  queueUs: 0,
  computeInputUs: 0,
  computeInferUs: 0,
  computeOutputUs: 0,
  batchSize: 1,
  executions: 1,
  release: 'direct',
};

export type FakeAnswer = (request: InferRequest, model: ReadyModel, call: Call) => Tensor[] | Promise<Tensor[]>;

/**
 * A dispatcher without an engine: answers with its inputs as outputs, in order. Answers can be replaced per model and
 * held back; like every dispatcher it settles at the latest when the call is cancelled, unless told to ignore that.
 */
export class FakeDispatcher implements MeasuredDispatcher {
  readonly seen: { readonly request: InferRequest; readonly call: Call }[] = [];
  readonly answers = new Map<string, FakeAnswer>();
  readonly states: ModelState[] = [];
  readonly statistics: ModelStats[] = [];
  /** What was loaded and unloaded, in order. */
  readonly changes: unknown[][] = [];
  /** What the next loads and unloads are refused with; undefined lets them pass. */
  controlError: InferError | undefined = controlRefused('m', 'load', 'models are not controlled by requests here');
  readiness: { ok: true } | { ok: false; reason: string } = { ok: true };
  catalogReady = true;
  ignoresCancel = false;
  readonly #models: readonly ReadyModel[];
  #held: Promise<void> | undefined;
  #letGo: () => void = () => undefined;

  constructor(models: readonly ReadyModel[]) {
    this.#models = models;
  }

  readonly catalog: ModelCatalog = {
    resolve: (name, version) => this.#resolve(name, version),
    list: () => [
      ...this.#models.map(({ name, version }) => ({ name, version, state: 'READY' as const, reason: '' })),
      ...this.states,
    ],
    ready: () => this.catalogReady,
  };

  wake(): undefined {
    return undefined;
  }

  readonly control: ModelControl = {
    load: (...change) => this.#change('load', change),
    unload: (...change) => this.#change('unload', change),
  };

  #change(action: string, change: readonly unknown[]): Promise<void> {
    this.changes.push([action, ...change]);
    return this.controlError ? Promise.reject(this.controlError) : Promise.resolve();
  }

  readonly infer = (request: InferRequest, call: Call): Promise<InferResponse> => {
    try {
      assertRequestFits(this.catalog.resolve(request.model, request.version), request);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
    this.seen.push({ request, call });
    const answer = this.#answer(request, call);
    if (this.ignoresCancel) return answer;
    return new Promise((resolve, reject) => {
      call.onCancel(reject);
      answer.then(resolve, reject);
    });
  };

  /** From now on answers wait for `letGo`. */
  hold(): void {
    this.#held = new Promise((resolve) => (this.#letGo = resolve));
  }

  letGo(): void {
    this.#held = undefined;
    this.#letGo();
  }

  ready() {
    return this.readiness;
  }

  stats(): readonly ModelStats[] {
    return this.statistics;
  }

  statsOf(model: string, version: string): ModelStats {
    const known = this.statistics.find((one) => one.model === model && one.version === version);
    if (known) return known;
    const stats = new ModelStats(model, version);
    this.statistics.push(stats);
    return stats;
  }

  pending(): number {
    return 0;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #answer(request: InferRequest, call: Call): Promise<InferResponse> {
    const model = this.#resolve(request.model, request.version);
    if (this.#held) await this.#held;
    const answer = this.answers.get(model.name) ?? identity;
    const outputs = await answer(request, model, call);
    return {
      model: model.name,
      version: model.version,
      outputs: outputs.filter(({ name }) => request.outputs.length === 0 || request.outputs.includes(name)),
      parameters: NO_PARAMETERS,
      timings: NO_TIME,
    };
  }

  #resolve(name: string, version: string): ReadyModel {
    const named = this.#models.filter((model) => model.name === name);
    if (named.length === 0) throw new InferError('NOT_FOUND', `Request for unknown model: '${name}' is not found`);
    const found = version === '' ? named.at(-1) : named.find((model) => model.version === version);
    if (!found) throw new InferError('NOT_FOUND', `model ${name} has no version ${version}`);
    return found;
  }
}

function identity(request: InferRequest, model: ReadyModel): Tensor[] {
  return model.outputs.flatMap(({ name }, i) => {
    const input = request.inputs[i];
    return input ? [{ ...input, name }] : [];
  });
}
