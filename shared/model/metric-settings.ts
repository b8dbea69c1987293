import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import { nearestName } from '../nearest-name.ts';

/** The one family whose buckets a config may set. */
export const FIRST_RESPONSE_FAMILY = 'nv_inference_first_response_histogram_ms';

const FAMILIES: readonly string[] = [FIRST_RESPONSE_FAMILY];

/** In ms, as in Triton. */
export const DEFAULT_BOUNDS_MS: readonly number[] = [100, 500, 2000, 5000];

/** A histogram with more is no summary. */
const MAX_BUCKETS = 100;

/** Extra labels of the model's metrics: `metric_tags`, each with `_` before its name, in the order of the names. */
export function metricTagsOf({ metricTags }: ModelConfig): Readonly<Record<string, string>> {
  const entries = Object.entries(metricTags).map(([key, value]) => [`_${key}`, value] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Bounds of the histogram of first responses, in ms. */
export function firstResponseBoundsOf({ modelMetrics }: ModelConfig): readonly number[] {
  const controls = modelMetrics?.metricControl ?? [];
  const options = controls.find(({ metricIdentifier }) => metricIdentifier?.family === FIRST_RESPONSE_FAMILY);
  return options?.metricOptions.case === 'histogramOptions' ? options.metricOptions.value.buckets : DEFAULT_BOUNDS_MS;
}

/** What is wrong with `metric_tags` and `model_metrics`. */
export function findMetricProblems(config: ModelConfig): string[] {
  const problems: string[] = [];
  for (const key of Object.keys(config.metricTags)) {
    if (/^[A-Za-z0-9][A-Za-z0-9_]*$/.test(key)) continue;
    const expected = 'expected a name of letters, digits and _, not beginning with _, as Prometheus takes for labels';
    problems.push(`metric_tags: ${expected}, got "${key}"`);
  }
  const seen = new Set<string>();
  for (const { metricIdentifier, metricOptions } of config.modelMetrics?.metricControl ?? []) {
    const family = metricIdentifier?.family ?? '';
    problems.push(...familyProblems(family, seen).map((problem) => `model_metrics: ${problem}`));
    seen.add(family);
    const where = `model_metrics: "${family}"`;
    if (metricOptions.case === undefined) problems.push(`${where}: histogram_options is missing`);
    else problems.push(...bucketProblems(metricOptions.value.buckets).map((problem) => `${where}: ${problem}`));
  }
  return problems;
}

function familyProblems(family: string, seen: ReadonlySet<string>): string[] {
  if (seen.has(family)) return [`"${family}" is listed twice`];
  if (FAMILIES.includes(family)) return [];
  const nearest = nearestName(family, FAMILIES);
  const hint = nearest === undefined ? '' : `; did you mean "${nearest}"?`;
  return [`expected the family ${FAMILIES.join(' or ')}, got "${family}"${hint}`];
}

function bucketProblems(buckets: readonly number[]): string[] {
  if (buckets.length === 0) return ['buckets: expected at least one bound, in ms'];
  if (buckets.length > MAX_BUCKETS) return [`buckets: expected at most ${MAX_BUCKETS}, got ${buckets.length}`];
  const rising = buckets.every((bound, i) => Number.isFinite(bound) && bound > (buckets[i - 1] ?? 0));
  return rising ? [] : [`buckets: expected rising bounds above 0, in ms, got ${buckets.join(', ')}`];
}
