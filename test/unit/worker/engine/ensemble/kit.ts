import { InferError } from '../../../../../shared/errors.ts';
import { Call } from '../../../../../shared/infer/call.ts';
import { ModelStats } from '../../../../../shared/infer/model-stats.ts';
import { unknownModel } from '../../../../../shared/infer/not-served.ts';
import type { InferRequest, Parameters } from '../../../../../shared/infer/request.ts';
import { NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import type { InferResponse, Timings } from '../../../../../shared/infer/response.ts';
import type { ReadyModel } from '../../../../../shared/model/ready-model.ts';
import type { ModelConfig } from '../../../../../shared/proto/generated/model_config_pb.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import { loadEnsemble } from '../../../../../worker/engine/ensemble/load-ensemble.ts';
import { DeadlineSweep } from '../../../../../worker/engine/schedule/deadline-sweep.ts';
import type { MemberSource, ServedModel } from '../../../../../worker/engine/served-model.ts';
import { readyModel } from '../../../shared/model/ensembles.ts';
import { FakeClock } from '../support/fake-clock.ts';

const TIMINGS: Timings = {
  queueUs: 1,
  computeInputUs: 10,
  computeInferUs: 100,
  computeOutputUs: 1000,
  batchSize: 1,
  executions: 1,
  release: 'direct',
};

/** A step's request, which the test answers. */
export interface HeldStep {
  readonly request: InferRequest;
  readonly call: Call;
  answer(outputs: readonly Tensor[], timings?: Partial<Timings>): void;
  fail(error: InferError): void;
}

/** A model version that holds every request until the test answers it, or answers at once with `onRequest`. */
export class FakeMember implements ServedModel {
  readonly ready: ReadyModel;
  readonly stats: ModelStats;
  readonly held: HeldStep[] = [];
  pins = 0;
  onRequest: ((request: InferRequest) => readonly Tensor[]) | undefined;

  constructor(name: string, config: string, { version = '1', labels = [] as readonly string[] } = {}) {
    this.ready = { ...readyModel(name, config, labels), version };
    this.stats = new ModelStats(name, version);
  }

  readonly scheduler = {
    enqueue: (request: InferRequest, call: Call): Promise<InferResponse> =>
      new Promise((resolve, reject) => {
        const { name: model, version } = this.ready;
        const answer = (outputs: readonly Tensor[], timings: Partial<Timings> = {}) => {
          const asked = outputs.filter(({ name }) => request.outputs.includes(name));
          const all = { ...TIMINGS, ...timings };
          resolve({ model, version, outputs: asked, parameters: NO_PARAMETERS, timings: all });
        };
        call.onCancel(reject);
        this.held.push({ request, call, answer, fail: reject });
        if (this.onRequest) answer(this.onRequest(request));
      }),
    pending: () => 0,
    open: () => 0,
    close: () => Promise.resolve(true),
  };

  relist(): void {}

  reidentify(): void {}

  pin(): () => void {
    this.pins += 1;
    return () => {
      this.pins -= 1;
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** The request that came last. */
  get last(): HeldStep {
    const step = this.held.at(-1);
    if (!step) throw new Error(`${this.ready.name} has no request`);
    return step;
  }
}

export interface Ensemble {
  readonly served: ServedModel;
  readonly clock: FakeClock;
  /** What the ensemble finds; tests change it. */
  readonly members: Map<string, FakeMember>;
  readonly infer: (inputs: readonly Tensor[], options?: SendOptions) => { call: Call; result: Promise<InferResponse> };
}

export interface SendOptions {
  readonly outputs?: readonly string[];
  readonly parameters?: Parameters;
  readonly timeoutMs?: number;
  readonly priority?: number;
  readonly id?: string;
}

/** An ensemble over fake members, as the repository loads it. */
export async function startEnsemble(
  config: ModelConfig,
  members: readonly FakeMember[],
  maxQueueSize = 100,
): Promise<Ensemble> {
  const clock = new FakeClock();
  const byName = new Map(members.map((member) => [member.ready.name, member]));
  const source: MemberSource = {
    find(name) {
      const member = byName.get(name);
      if (!member) throw unknownModel(name);
      return member;
    },
  };
  const served = await loadEnsemble(
    { name: 'ens', path: 'none', config, versions: ['1'] },
    '1',
    { names: [], read: () => Promise.reject(new Error('there is none')) },
    new ModelStats('ens', '1'),
    { clock, deadlines: new DeadlineSweep(clock), maxQueueSize, autoComplete: true, identities: false },
    source,
  );
  return {
    served,
    clock,
    members: byName,
    infer(inputs, { outputs = [], parameters = NO_PARAMETERS, timeoutMs = Infinity, priority = 0, id = '' } = {}) {
      const call = new Call('call', clock.now(), clock.now() + timeoutMs, priority);
      const result = served.scheduler.enqueue({ id, model: 'ens', version: '', inputs, outputs, parameters }, call);
      result.catch(() => {}); // the test looks at it later
      return { call, result };
    },
  };
}

/** What a request failed with. */
export async function errorOf(result: Promise<InferResponse>): Promise<InferError> {
  const error: unknown = await result.then(
    () => 'it was answered',
    (thrown: unknown) => thrown,
  );
  if (error instanceof InferError) return error;
  throw new Error(`expected an InferError, got ${String(error)}`);
}
