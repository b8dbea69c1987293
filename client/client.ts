import { decodeAnswer, headerLengthOf, parseJson, recordOf, textOf } from './decode.ts';
import { datatypeOfData, type EncodedInput, encodeInput } from './encode.ts';
import { Job } from './job.ts';
import { MillraceError } from './millrace-error.ts';
import { type Answer, type Call, Transport, type TransportOptions } from './transport.ts';
import {
  type CallOptions,
  type Datatype,
  type InputsOf,
  type InferResult,
  type InputTensor,
  type ModelType,
  type ModelTypes,
  type OutputName,
  type OutputsOf,
} from './types.ts';
import { isDatatype } from '../shared/tensor/datatype.ts';

export { Job, type JobState, type JobStatus } from './job.ts';
export { MillraceError } from './millrace-error.ts';
export type { TransportOptions as MillraceOptions } from './transport.ts';
export type * from './types.ts';

export interface InferOptions<
  M extends ModelType = ModelType,
  O extends OutputName<M> = OutputName<M>,
> extends CallOptions {
  /** The version to run; by default what the version policy and the traffic of the model say. */
  readonly version?: string;
  /** The outputs to send back; all of them by default. */
  readonly outputs?: readonly O[];
  /** Comes back with the answer. */
  readonly id?: string;
  /** Of the protocol, such as `priority` or `sequence_id`. */
  readonly parameters?: Readonly<Record<string, string | number | boolean>>;
}

export interface EnqueueOptions<
  M extends ModelType = ModelType,
  O extends OutputName<M> = OutputName<M>,
> extends InferOptions<M, O> {
  /** 0 stands in line with synchronous requests; 1 and more behind them, lower numbers first. */
  readonly priority?: number;
  /** Until the job may run, in ms. */
  readonly delayMs?: number;
  /** From then to when it must be over, in ms. */
  readonly deadlineMs?: number;
  /** How often it may run when it fails in a way that may pass. */
  readonly attempts?: number;
  /** How long job and answer are kept once it is over, in ms. */
  readonly keepMs?: number;
  /** A URL that the server tells when the job is over, where webhooks are switched on. */
  readonly webhook?: string;
  /**
   * Two jobs with one key are one job. A key of its own unless given, so that trying again after a lost connection never
   * makes two.
   */
  readonly idempotencyKey?: string;
}

/** What a model takes and gives, as the server tells it. */
export interface ModelMetadata {
  readonly name: string;
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorMetadata[];
  readonly outputs: readonly TensorMetadata[];
}

export interface TensorMetadata {
  readonly name: string;
  readonly datatype: Datatype;
  /** -1 for a variable dimension. */
  readonly shape: readonly number[];
}

export interface ModelIndexEntry {
  readonly name: string;
  readonly version: string;
  readonly state: string;
  readonly reason: string;
}

/**
 * A client of a Millrace server, of any other that speaks Triton's HTTP protocol as well, but for the jobs. `Models` is
 * what `millrace codegen` wrote; without it every model takes every input.
 */
export class Millrace<Models extends ModelTypes = ModelTypes> {
  readonly #transport: Transport;
  /** By model and version. */
  readonly #metadata = new Map<string, ModelMetadata>();

  /** @throws MillraceError for options that cannot be used */
  constructor(options: TransportOptions) {
    this.#transport = new Transport(options);
  }

  /**
   * Runs a model once and waits for its answer.
   * @throws MillraceError with the server's words, or for inputs that cannot be sent
   */
  async infer<Name extends keyof Models & string, O extends OutputName<Models[Name]> = OutputName<Models[Name]>>(
    model: Name,
    inputs: InputsOf<Models[Name]>,
    options: InferOptions<Models[Name], O> = {},
  ): Promise<InferResult<Models[Name], O>> {
    const { body, headers } = await this.#encode(model, inputs, options);
    const path = `${modelPath(model, options.version)}/infer`;
    const { signal, timeoutMs } = options;
    const sent = { method: 'POST', path, headers, body, signal, timeoutMs, repeatable: !isStateful(options) };
    const answer = await this.#send(model, sent);
    const decoded = decodeAnswer(answer.body, headerLengthOf(answer.headers));
    return { ...decoded, outputs: decoded.outputs as OutputsOf<Models[Name], O> }; // as the server's model has them
  }

  /**
   * Leaves a request with the server, which answers when it has it safely; the answer is fetched later, by whoever has the
   * job's id, over any server of the pool.
   * @throws MillraceError as `infer`; 422 for a key that stands for another request
   */
  async enqueue<Name extends keyof Models & string, O extends OutputName<Models[Name]> = OutputName<Models[Name]>>(
    model: Name,
    inputs: InputsOf<Models[Name]>,
    options: EnqueueOptions<Models[Name], O> = {},
  ): Promise<Job<Models[Name], O>> {
    const { body, headers } = await this.#encode(model, inputs, options);
    const { signal, timeoutMs, idempotencyKey = crypto.randomUUID() } = options;
    const path = `${modelPath(model, options.version)}/jobs${jobQuery(options)}`;
    const all = { ...headers, 'idempotency-key': idempotencyKey };
    const sent = { method: 'POST', path, headers: all, body, signal, timeoutMs, repeatable: true };
    const answer = await this.#send(model, sent);
    return new Job(this.#transport, textOf(parseJson(answer.body)['id']));
  }

  /** A job by its id, and the outputs that it was asked for. Asks nothing of the server yet. */
  job<Name extends keyof Models & string, O extends OutputName<Models[Name]> = OutputName<Models[Name]>>(
    id: string,
  ): Job<Models[Name], O> {
    return new Job(this.#transport, id);
  }

  /** @throws MillraceError when there is no such model */
  async metadata(
    model: keyof Models & string,
    options: CallOptions & { version?: string } = {},
  ): Promise<ModelMetadata> {
    return readMetadata(await this.#json('GET', modelPath(model, options.version), options));
  }

  /** The inputs of a model that a request may leave out, by its config. @throws MillraceError as `metadata` */
  async optionalInputs(model: keyof Models & string, options: CallOptions = {}): Promise<readonly string[]> {
    const { input } = recordOf(await this.#json('GET', `${modelPath(model)}/config`, options));
    const inputs = (Array.isArray(input) ? input : []).map(recordOf);
    return inputs.filter(({ optional }) => optional === true).map(({ name }) => textOf(name));
  }

  /** All models of the server with their states. */
  async models(options: CallOptions = {}): Promise<readonly ModelIndexEntry[]> {
    const rows = await this.#json('POST', '/v2/repository/index', options, '{}');
    return (Array.isArray(rows) ? rows : []).map(recordOf).map((row) => ({
      name: textOf(row['name']),
      version: textOf(row['version']),
      state: textOf(row['state']),
      reason: textOf(row['reason']),
    }));
  }

  /** Whether the server, or one model of it, takes requests. */
  async ready(model?: keyof Models & string, options: CallOptions = {}): Promise<boolean> {
    const path = model === undefined ? '/v2/health/ready' : `${modelPath(model)}/ready`;
    try {
      await this.#transport.call({ method: 'GET', path, ...options, repeatable: true });
      return true;
    } catch (error) {
      if (error instanceof MillraceError && error.status > 0) return false;
      throw error;
    }
  }

  async #json(method: string, path: string, options: CallOptions, body?: string): Promise<unknown> {
    const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
    const sent = { method, path, headers, ...(body !== undefined && { body }), ...options, repeatable: true };
    const answer = await this.#transport.call(sent);
    return parseJson(answer.body);
  }

  async #encode(model: string, inputs: object, options: RequestOptions): Promise<Body> {
    const given = Object.entries(inputs as Readonly<Record<string, InputTensor | undefined>>);
    const encoded: EncodedInput[] = [];
    for (const [name, tensor] of given) {
      if (tensor === undefined) continue;
      const datatype = tensor.datatype ?? datatypeOfData(tensor.data) ?? (await this.#datatypeOf(model, name, options));
      encoded.push(encodeInput(name, tensor, datatype));
    }
    return bodyOf(encoded, options);
  }

  /** What the model says it takes; asked for once a version, and again when it cannot be right any more. */
  async #datatypeOf(
    model: string,
    input: string,
    { version = '', signal, timeoutMs }: RequestOptions,
  ): Promise<Datatype> {
    const key = JSON.stringify([model, version]);
    const options = { version, ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) };
    const known = this.#metadata.get(key) ?? (await this.metadata(model, options));
    const found = known.inputs.find(({ name }) => name === input);
    if (!found) {
      this.#metadata.delete(key);
      const names = known.inputs.map(({ name }) => name).join(', ');
      throw new MillraceError(`model '${model}' has no input '${input}'; it takes ${names}`);
    }
    this.#metadata.set(key, known);
    return found.datatype;
  }

  async #send(model: string, call: Call): Promise<Answer> {
    try {
      return await this.#transport.call(call);
    } catch (error) {
      // The model may have been replaced by one that takes something else.
      if (error instanceof MillraceError && error.status === 400) this.#forget(model);
      throw error;
    }
  }

  #forget(model: string): void {
    for (const key of this.#metadata.keys())
      if (key.startsWith(`[${JSON.stringify(model)},`)) this.#metadata.delete(key);
  }
}

/** Options of a call for a model of any type. */
interface RequestOptions {
  readonly version?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  readonly id?: string | undefined;
  readonly outputs?: readonly string[] | undefined;
  readonly parameters?: Readonly<Record<string, string | number | boolean>> | undefined;
}

interface Body {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly headers: Readonly<Record<string, string>>;
}

/** JSON with the bytes of all inputs behind it, as the binary tensor extension has it. */
function bodyOf(inputs: readonly EncodedInput[], { id, outputs, parameters }: RequestOptions): Body {
  const json = new TextEncoder().encode(
    JSON.stringify({
      ...(id !== undefined && { id }),
      inputs: inputs.map(({ name, datatype, shape, data }) => {
        return { name, datatype, shape, parameters: { binary_data_size: data.byteLength } };
      }),
      ...(outputs && { outputs: outputs.map((name) => ({ name, parameters: { binary_data: true } })) }),
      parameters: { ...parameters, binary_data_output: true },
    }),
  );
  const body = new Uint8Array(inputs.reduce((sum, { data }) => sum + data.byteLength, json.byteLength));
  body.set(json);
  let offset = json.byteLength;
  for (const { data } of inputs) {
    body.set(data, offset);
    offset += data.byteLength;
  }
  const headers = {
    'content-type': 'application/octet-stream',
    'inference-header-content-length': String(json.byteLength),
  };
  return { body, headers };
}

/** A request of a sequence moves its state, so it must not be made twice. */
function isStateful({ parameters }: RequestOptions): boolean {
  const sequence = parameters?.['sequence_id'];
  return sequence !== undefined && sequence !== 0 && sequence !== '';
}

interface JobSettings {
  readonly priority?: number | undefined;
  readonly delayMs?: number | undefined;
  readonly deadlineMs?: number | undefined;
  readonly attempts?: number | undefined;
  readonly keepMs?: number | undefined;
  readonly webhook?: string | undefined;
}

function jobQuery({ priority, delayMs, deadlineMs, attempts, keepMs, webhook }: JobSettings): string {
  const query = new URLSearchParams();
  if (priority !== undefined) query.set('priority', String(priority));
  if (delayMs !== undefined) query.set('delay', `${delayMs}ms`);
  if (deadlineMs !== undefined) query.set('timeout', `${deadlineMs}ms`);
  if (attempts !== undefined) query.set('attempts', String(attempts));
  if (keepMs !== undefined) query.set('keep', `${keepMs}ms`);
  if (webhook !== undefined) query.set('webhook', webhook);
  return query.size === 0 ? '' : `?${query.toString()}`;
}

function modelPath(model: string, version?: string): string {
  const path = `/v2/models/${encodeURIComponent(model)}`;
  return version === undefined || version === '' ? path : `${path}/versions/${encodeURIComponent(version)}`;
}

function readMetadata(value: unknown): ModelMetadata {
  const { name, versions, platform, inputs, outputs } = recordOf(value);
  return {
    name: textOf(name),
    versions: Array.isArray(versions) ? versions.map(String) : [],
    platform: textOf(platform),
    inputs: readTensors(inputs),
    outputs: readTensors(outputs),
  };
}

function readTensors(value: unknown): TensorMetadata[] {
  return (Array.isArray(value) ? value : []).map(recordOf).flatMap(({ name, datatype, shape }) => {
    if (!isDatatype(datatype)) return [];
    return [{ name: textOf(name), datatype, shape: Array.isArray(shape) ? shape.map(Number) : [] }];
  });
}
