import {
  type ModelConfig,
  type ModelDynamicBatching,
  type ModelInput,
  ModelInstanceGroup_Kind,
  type ModelOutput,
  type ModelQueuePolicy,
  ModelQueuePolicy_TimeoutAction,
} from '../../../shared/proto/generated/model_config_pb.ts';
import type { BatchingReport } from '../../../shared/infer/batching-report.ts';
import { sessionOptionsOf } from '../../../shared/model/ort-options.ts';
import { datatypeOfConfig } from '../../../shared/tensor/datatype.ts';
import { generatedInputs } from '../../../shared/model/padding-settings.ts';
import { LONELY_WAITS } from '../../../worker/engine/schedule/wait-evidence.ts';
import { chosenWords, measuredWords, sentence } from './explain-measured.ts';
import { hasUnpaddedLength, paddingWords } from './explain-padding.ts';

/** One input or output, said for people. */
export interface TensorWords {
  readonly name: string;
  readonly datatype: string;
  /** As a client sends or gets it: -1 for any length, the batch dimension in front. */
  readonly shape: readonly number[];
  readonly words: string;
}

/** What a client sends, or gets, for a completed config. */
export function tensorWords(config: ModelConfig, tensor: ModelInput | ModelOutput): TensorWords {
  const datatype = datatypeOfConfig(tensor.dataType) ?? 'INVALID';
  const dims = tensor.dims.map(Number);
  const batched = config.maxBatchSize > 0;
  const notes: string[] = [];
  if (tensor.reshape) {
    const own = tensor.reshape.shape.map(Number);
    notes.push(own.length === 0 ? 'the model itself sees a plain number' : `the model itself sees ${timesWords(own)}`);
  }
  const generated = 'optional' in tensor && generatedInputs(config).has(tensor.name);
  if (generated) notes.push('may be left out and is ones then');
  else if ('optional' in tensor && tensor.optional) notes.push('may be left out');
  if ('labelFilename' in tensor && tensor.labelFilename !== '') notes.push(`labels in ${tensor.labelFilename}`);
  const words = `${batched ? `${rowsWords(config.maxBatchSize)} of ` : ''}${elementsWords(dims, datatype)}`;
  return {
    name: tensor.name,
    datatype,
    shape: batched ? [-1, ...dims] : dims,
    words: [words, ...notes].join('; '),
  };
}

function rowsWords(maxBatchSize: number): string {
  return maxBatchSize === 1 ? '1 row' : `1 to ${maxBatchSize} rows`;
}

function elementsWords(dims: readonly number[], datatype: string): string {
  const kind = datatype === 'BYTES' ? 'BYTES text' : `${datatype} ${datatype === 'BOOL' ? 'value' : 'number'}`;
  const count = dims.includes(-1) ? undefined : dims.reduce((product, dim) => product * dim, 1);
  if (count === 1) return `1 ${kind}`;
  if (dims.length === 1 && dims[0] === -1) return `any number of ${kind}s`;
  return `${timesWords(dims)} ${kind}s`;
}

function timesWords(dims: readonly number[]): string {
  return dims.map((dim) => (dim === -1 ? 'any' : String(dim))).join(' x ');
}

/**
 * What becomes of requests that arrive: when one runs alone, when several share a run.
 * @param report what loading the model has found out
 */
export function batchingWords(config: ModelConfig, report?: BatchingReport): string[] {
  const choice = config.schedulingChoice;
  const max = config.maxBatchSize;
  if (choice.case === 'ensembleScheduling') {
    return ['An ensemble: each step is a request to its model, and is batched there with everybody else’s.'];
  }
  if (choice.case === 'sequenceBatching') {
    return ['Requests of one sequence go to one place of one instance, in their order.'];
  }
  if (max === 0) {
    return ['max_batch_size is 0 or not set: tensors have no batch dimension, and each request is a run of its own.'];
  }
  const row = max === 1 ? 'one row' : `up to ${max} rows`;
  if (choice.case !== 'dynamicBatching') {
    const hint = max > 1 ? '; dynamic_batching { } would merge requests' : '';
    return [`Each request, of ${row}, is a run of its own, in the order of arrival: no dynamic_batching${hint}.`];
  }
  const policy = queueWords(choice.value);
  if (max === 1)
    return ['max_batch_size is 1: there is nothing to merge, each request is a run of its own.', ...policy];
  if (report && !report.merges) {
    return ['Each request is a run of its own.', sentence(report.reason), ...policy];
  }
  return [
    `Requests that wait together share a run of up to ${max} rows; a request is never split.`,
    ...(report && (report.auto || report.reason !== '') ? chosenWords(report) : releaseWords(choice.value, max)),
    ...groupWords(config),
    ...(choice.value.preserveOrdering ? ['Answers leave in the order in which their requests ran.'] : []),
    ...(report ? measuredWords(report) : []),
    ...policy,
  ];
}

function releaseWords({ preferredBatchSize, maxQueueDelayMicroseconds }: ModelDynamicBatching, max: number): string[] {
  const sizes = [...new Set([...preferredBatchSize, max])].sort((a, b) => a - b);
  const list = sizes.length === 1 ? `${max}` : `${sizes.slice(0, -1).join(', ')} or ${max}`;
  const when = `A run starts as soon as ${list} rows wait and an instance is idle`;
  const largest = sizes.length === 1 ? '.' : '; the largest of these sizes that is reached counts.';
  if (maxQueueDelayMicroseconds === 0n) {
    return [
      `${when}${largest}`,
      'No delay: whatever waits runs as soon as an instance is idle, a lone request at once. Larger runs come about while all instances are busy.',
    ];
  }
  return [
    `${when}${largest}`,
    `Fewer rows wait for company, at most ${durationWords(maxQueueDelayMicroseconds)} from the arrival of the oldest request; then all of them run.`,
    `A lone request runs at once after ${LONELY_WAITS} waits in a row that brought nobody, until company comes again.`,
  ];
}

function groupWords(config: ModelConfig): string[] {
  const { input } = config;
  const variable = input.some((each) => hasUnpaddedLength(config, each));
  const optional = input.some((each) => each.optional);
  const same = [...(variable ? ['equal dimensions'] : []), ...(optional ? ['the same inputs'] : [])];
  const rule = same.length === 0 ? [] : [`Only requests with ${same.join(' and ')} share a run.`];
  return [...paddingWords(config), ...rule];
}

function queueWords(batching: ModelDynamicBatching): string[] {
  const { priorityLevels: levels, defaultPriorityLevel, defaultQueuePolicy, priorityQueuePolicy } = batching;
  const words: string[] = [];
  if (levels > 0n) {
    const own = `a request without a priority has ${defaultPriorityLevel.toString()}`;
    words.push(`${levels.toString()} priority levels, 1 first; ${own}. Within a level the oldest goes first.`);
  }
  const policy = policyWords(defaultQueuePolicy);
  if (policy !== '') words.push(`In the queue: ${policy}.`);
  for (const [level, own] of Object.entries(priorityQueuePolicy)) {
    words.push(`In the queue of priority ${level}: ${policyWords(own) || 'no limits'}.`);
  }
  return words;
}

function policyWords(policy: ModelQueuePolicy | undefined): string {
  if (!policy) return '';
  const words: string[] = [];
  if (policy.defaultTimeoutMicroseconds > 0n) {
    const delayed = policy.timeoutAction === ModelQueuePolicy_TimeoutAction.DELAY;
    const then = delayed ? 'a request goes behind those that are in time' : 'a request is refused';
    words.push(`after ${durationWords(policy.defaultTimeoutMicroseconds)} ${then}`);
    if (policy.allowTimeoutOverride) words.push('a request may ask for less time');
  }
  if (policy.maxQueueSize > 0) words.push(`at most ${policy.maxQueueSize} requests wait, more are refused`);
  return words.join('; ');
}

/** The largest unit that keeps the number plain. */
export function durationWords(microseconds: bigint): string {
  const us = Number(microseconds);
  if (us < 1000) return `${us} µs`;
  return us < 1_000_000 ? `${us / 1000} ms` : `${us / 1_000_000} s`;
}

/** How many runs may be under way at once, and on what. */
export function instanceWords(config: ModelConfig): string[] {
  if (config.schedulingChoice.case === 'ensembleScheduling') return [];
  const threads = sessionOptionsOf(config).intraOpNumThreads;
  return config.instanceGroup.map((group) => {
    const runs = group.count === 1 ? '1 run at once' : `${group.count} runs at once`;
    const onCpu = group.kind === ModelInstanceGroup_Kind.CPU;
    const gpus = group.gpus.length === 0 ? 'each GPU' : `GPU ${group.gpus.join(', ')}`;
    const place = onCpu ? 'the CPU' : group.kind === ModelInstanceGroup_Kind.GPU ? gpus : 'what the model chooses';
    const note = group.passive ? ', passive: the scheduler gives it no work' : '';
    return `${runs} on ${place}${onCpu ? `, ${threads} ${threads === 1 ? 'thread' : 'threads'} each` : ''}${note}`;
  });
}

/** Which versions the policy picks among those that are there. */
export function versionWords(config: ModelConfig, available: readonly string[], versions: readonly string[]): string {
  const choice = config.versionPolicy?.policyChoice;
  const policy =
    choice?.case === 'all'
      ? 'all'
      : choice?.case === 'specific'
        ? `specific: ${choice.value.versions.join(', ')}`
        : `the latest${choice?.case === 'latest' && choice.value.numVersions > 1 ? ` ${choice.value.numVersions}` : ''}`;
  const others = available.filter((version) => !versions.includes(version));
  const rest = others.length === 0 ? '' : `; not served: ${others.join(', ')}`;
  return `${versions.join(', ')}  (policy: ${policy}${rest})`;
}
