import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import { nearestName } from '../nearest-name.ts';

/** What the `parameters` of a config say about its batches. */
export interface BatchParameters {
  /** Rows of a run and delay are chosen by the engine. */
  readonly auto: boolean;
  /** Latency that 99 of 100 requests are to keep, in ms; undefined for none. */
  readonly goalMs: number | undefined;
  /** Whether the batch curve is measured at load. */
  readonly curve: boolean;
  /** How far the answer for a row may move with its company, relative to its size. */
  readonly tolerance: number;
  /** The rows that a run may have: any, 1, 2, 4 … or these, ascending; undefined leaves it to the engine. */
  readonly sizes: 'any' | 'powers' | readonly number[] | undefined;
}

const KEYS = {
  settings: 'batch_settings',
  goal: 'slo_p99_ms',
  curve: 'batch_curve',
  tolerance: 'batch_tolerance',
  sizes: 'batch_sizes',
} as const;

/** What a config without `batch_tolerance` allows; see docs/decisions.md. */
export const DEFAULT_BATCH_TOLERANCE = 0.02;

/** An hour: longer than any request may take. */
const MAX_GOAL_MS = 3_600_000;

/** The batch parameters of a config that `findBatchParameterProblems` found nothing in. */
export function batchParametersOf(config: ModelConfig): BatchParameters {
  const goal = valueOf(config, KEYS.goal);
  return {
    auto: valueOf(config, KEYS.settings) === 'auto',
    goalMs: goal === undefined ? undefined : Number(goal),
    curve: valueOf(config, KEYS.curve) !== 'off',
    tolerance: Number(valueOf(config, KEYS.tolerance) ?? DEFAULT_BATCH_TOLERANCE),
    sizes: readSizes(valueOf(config, KEYS.sizes)),
  };
}

function readSizes(text: string | undefined): BatchParameters['sizes'] {
  if (text === undefined || text === 'any' || text === 'powers') return text;
  return text.split(',').map(Number);
}

/** What is wrong with the batch parameters of a config, one text each. */
export function findBatchParameterProblems(config: ModelConfig): string[] {
  const problems: string[] = [];
  const settings = valueOf(config, KEYS.settings);
  const goal = valueOf(config, KEYS.goal);
  const curve = valueOf(config, KEYS.curve);
  const tolerance = valueOf(config, KEYS.tolerance);
  checkOneOf(problems, KEYS.settings, settings, ['auto', 'config']);
  checkOneOf(problems, KEYS.curve, curve, ['on', 'off']);
  checkNumber(problems, KEYS.goal, goal, (value) => value > 0 && value <= MAX_GOAL_MS, 'a time in ms, up to an hour');
  checkNumber(problems, KEYS.tolerance, tolerance, (value) => value >= 0, 'a share, as "0.05"');
  const sizes = valueOf(config, KEYS.sizes);
  if (sizes !== undefined && !isSizes(sizes)) {
    const expected = '"any", "powers" or rising numbers of rows, as "1,4,16"';
    problems.push(`${where(KEYS.sizes)}: expected ${expected}, got "${sizes}"`);
  }
  if (settings === 'auto' && curve === 'off') {
    problems.push(`${where(KEYS.curve)}: "off" does not go with "${KEYS.settings}" "auto"`);
  }
  return problems;
}

/** Where a completed and normalised config does not give its batch parameters what they need, one text each. */
export function findBatchSettingProblems(config: ModelConfig): string[] {
  const { auto, goalMs, sizes } = batchParametersOf(config);
  const { case: kind, value: choice } = config.schedulingChoice;
  const sizeProblems = sizes === undefined || sizes === 'any' ? [] : sizesProblems(config, sizes);
  if (sizeProblems.length > 0) return sizeProblems;
  if (kind !== 'dynamicBatching') {
    const missing = 'needs dynamic_batching { }';
    return [
      ...(auto ? [`${where(KEYS.settings)}: "auto" ${missing}`] : []),
      ...(goalMs === undefined ? [] : [`${where(KEYS.goal)} ${missing}`]),
    ];
  }
  // Normalising sets the maximum where the config names no size.
  if (!auto || choice.preferredBatchSize.every((rows) => rows === config.maxBatchSize)) return [];
  return [`dynamic_batching.preferred_batch_size does not go with parameter "${KEYS.settings}" "auto": leave one out`];
}

function sizesProblems({ maxBatchSize, schedulingChoice }: ModelConfig, sizes: 'powers' | readonly number[]): string[] {
  if (maxBatchSize < 1) return [`${where(KEYS.sizes)} needs a max_batch_size of 1 or more`];
  if (schedulingChoice.case === 'sequenceBatching') return [`${where(KEYS.sizes)} does not go with sequence_batching`];
  const most = sizes === 'powers' ? 0 : (sizes.at(-1) ?? 0);
  if (most <= maxBatchSize) return [];
  return [`${where(KEYS.sizes)}: ${most} rows are more than max_batch_size ${maxBatchSize}`];
}

function isSizes(text: string): boolean {
  if (text === 'any' || text === 'powers') return true;
  if (!/^[1-9]\d{0,8}(,[1-9]\d{0,8})*$/.test(text)) return false;
  const sizes = text.split(',').map(Number);
  return sizes.every((rows, index) => index === 0 || rows > (sizes[index - 1] ?? 0));
}

function checkOneOf(problems: string[], key: string, value: string | undefined, values: readonly string[]): void {
  if (value === undefined || values.includes(value)) return;
  const nearest = nearestName(value, values);
  const hint = nearest === undefined ? '' : `; did you mean "${nearest}"?`;
  const expected = values.map((each) => `"${each}"`).join(' or ');
  problems.push(`${where(key)}: expected ${expected}, got "${value}"${hint}`);
}

function checkNumber(
  problems: string[],
  key: string,
  text: string | undefined,
  allowed: (value: number) => boolean,
  expected: string,
): void {
  if (text === undefined) return;
  if (/^\d+(\.\d+)?$/.test(text) && allowed(Number(text))) return;
  problems.push(`${where(key)}: expected ${expected}, got "${text}"`);
}

function where(key: string): string {
  return `parameter "${key}"`;
}

function valueOf({ parameters }: ModelConfig, key: string): string | undefined {
  return Object.hasOwn(parameters, key) ? parameters[key]?.stringValue : undefined;
}
