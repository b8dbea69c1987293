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
}

const KEYS = {
  settings: 'batch_settings',
  goal: 'slo_p99_ms',
  curve: 'batch_curve',
  tolerance: 'batch_tolerance',
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
  };
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
  if (settings === 'auto' && curve === 'off') {
    problems.push(`${where(KEYS.curve)}: "off" does not go with "${KEYS.settings}" "auto"`);
  }
  return problems;
}

/** Where a completed and normalised config does not give its batch parameters what they need, one text each. */
export function findBatchSettingProblems(config: ModelConfig): string[] {
  const { auto, goalMs } = batchParametersOf(config);
  const { case: kind, value: choice } = config.schedulingChoice;
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
