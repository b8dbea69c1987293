import { type ModelConfig, ModelInstanceGroup_Kind as Kind } from '../proto/generated/model_config_pb.ts';
import { nearestName } from '../nearest-name.ts';
import type { Devices } from './devices.ts';
import { findTensorRtProblems, tensorRtOptionsOf } from './tensorrt-options.ts';

/** How the sessions of a model on GPUs are to be opened. */
export interface GpuOptions {
  /** Options of the CUDA provider by ONNX Runtime's names and in its words; what is not here is its default. */
  readonly provider: Readonly<Record<string, string>>;
  /** Options of the TensorRT provider likewise, which then takes what it can before CUDA does; absent without it. */
  readonly tensorRt?: Readonly<Record<string, string>>;
  /** Whether a node that would run on the CPU fails the load. */
  readonly only: boolean;
  /** By the number of a GPU: how many sessions are opened on it. */
  readonly instances: Readonly<Record<number, number>>;
}

const SWITCH = new Map([
  ['0', '0'],
  ['1', '1'],
  ['false', '0'],
  ['true', '1'],
]);

/** Triton's numbers and ONNX Runtime's words alike. */
const WORDS: Readonly<Record<string, ReadonlyMap<string, string>>> = {
  arena_extend_strategy: words('kNextPowerOfTwo', 'kSameAsRequested'),
  cudnn_conv_algo_search: words('EXHAUSTIVE', 'HEURISTIC', 'DEFAULT'),
  cudnn_conv_use_max_workspace: SWITCH,
  do_copy_in_default_stream: SWITCH,
  use_tf32: SWITCH,
};

const MEMORY = 'gpu_mem_limit';
const GRAPH = 'enable_cuda_graph';
const ONLY = 'gpu_only';
const PROVIDER_KEYS = [MEMORY, GRAPH, ...Object.keys(WORDS)];
const ACCELERATOR = 'optimization.execution_accelerators.gpu_execution_accelerator';
const CUDA = 'cuda';
const TENSORRT = 'tensorrt';
const MAX_BYTES = 2n ** 63n;

/** For a normalised config without problems; undefined for a model that has no instance on a GPU. */
export function gpuOptionsOf(config: ModelConfig): GpuOptions | undefined {
  const instances: Record<number, number> = {};
  for (const { kind, gpus, count } of config.instanceGroup) {
    if (kind === Kind.GPU) for (const gpu of gpus) instances[gpu] = (instances[gpu] ?? 0) + count;
  }
  if (Object.keys(instances).length === 0) return undefined;
  const provider: Record<string, string> = {};
  for (const [key, value] of settingsOf(config)) {
    const known = WORDS[key]?.get(value) ?? (key === MEMORY ? value : undefined);
    if (known !== undefined && value !== '') provider[key] = known;
  }
  const only = SWITCH.get(config.parameters[ONLY]?.stringValue ?? '0') === '1';
  const tensorRt = acceleratorsOf(config).find(({ name }) => name === TENSORRT);
  return { provider, ...(tensorRt && { tensorRt: tensorRtOptionsOf(tensorRt.parameters) }), only, instances };
}

/** What is wrong with `gpu_only`, which is ours, wherever the model runs: it must not run on the CPU without a word. */
export function findGpuOnlyProblems(config: ModelConfig, { gpus, reason }: Devices): string[] {
  const only = config.parameters[ONLY]?.stringValue ?? '0';
  if (!SWITCH.has(only)) return [wrong(`parameter "${ONLY}"`, SWITCH, only)];
  const onGpu = config.instanceGroup.some(({ kind }) => kind === Kind.GPU);
  if (SWITCH.get(only) === '0' || onGpu) return [];
  const why = gpus.length > 0 ? 'no instance_group is on one' : reason;
  return [`parameter "${ONLY}" wants the model on a GPU: ${why}`];
}

/** What is wrong with the options of a model that runs on GPUs. */
export function findGpuOptionProblems(config: ModelConfig): string[] {
  const problems: string[] = [];
  for (const key of PROVIDER_KEYS) {
    const value = config.parameters[key]?.stringValue;
    if (value !== undefined) problems.push(...problemsOf(`parameter "${key}"`, key, value));
  }
  for (const { name, parameters } of acceleratorsOf(config)) {
    if (name === TENSORRT) problems.push(...findTensorRtProblems(`${ACCELERATOR} "${name}"`, parameters));
    else if (name !== CUDA) problems.push(`${ACCELERATOR} "${name}" is not supported: set "${CUDA}" or "${TENSORRT}"`);
    else {
      for (const [key, value] of Object.entries(parameters)) {
        const where = `${ACCELERATOR} "cuda": parameter "${key}"`;
        problems.push(...(PROVIDER_KEYS.includes(key) ? problemsOf(where, key, value) : [unknown(where, key)]));
      }
    }
  }
  return problems;
}

/** A parameter of the accelerator is nearer to the matter than one of the model, so it wins. */
function settingsOf(config: ModelConfig): Map<string, string> {
  const settings = new Map<string, string>();
  for (const key of PROVIDER_KEYS) {
    const value = config.parameters[key]?.stringValue;
    if (value !== undefined) settings.set(key, value);
  }
  for (const { name, parameters } of acceleratorsOf(config)) {
    if (name === CUDA) for (const [key, value] of Object.entries(parameters)) settings.set(key, value);
  }
  return settings;
}

function acceleratorsOf(config: ModelConfig) {
  return config.optimization?.executionAccelerators?.gpuExecutionAccelerator ?? [];
}

function problemsOf(where: string, key: string, value: string): string[] {
  if (key === MEMORY) {
    const fits = /^[1-9]\d{0,18}$/.test(value) && BigInt(value) < MAX_BYTES;
    return fits ? [] : [`${where}: expected a number of bytes from 1 up, got "${value}"`];
  }
  if (key === GRAPH) {
    if (SWITCH.get(value) === '0') return [];
    if (!SWITCH.has(value)) return [wrong(where, SWITCH, value)];
    const why = 'a graph reads and writes fixed places in device memory, and each run here brings places of its own';
    return [`${where} is not supported: ${why}; set "0"`];
  }
  const known = WORDS[key];
  return known && !known.has(value) ? [wrong(where, known, value)] : [];
}

function wrong(where: string, known: ReadonlyMap<string, string>, value: string): string {
  return `${where}: expected one of ${[...known.keys()].map((word) => `"${word}"`).join(', ')}, got "${value}"`;
}

function unknown(where: string, key: string): string {
  const nearest = nearestName(key, PROVIDER_KEYS);
  return `${where} is not supported${nearest === undefined ? '' : `; did you mean "${nearest}"?`}`;
}

/** ONNX Runtime's words in the order of Triton's numbers. */
function words(...names: string[]): ReadonlyMap<string, string> {
  return new Map([...names.map((name, index) => [String(index), name] as const), ...names.map((n) => [n, n] as const)]);
}
