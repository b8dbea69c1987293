import type { Registry } from 'prom-client';
import type { CountAndNs, ModelStats } from '../infer/model-stats.ts';
import { registerCollected, type Sample } from './collected-metric.ts';

export interface CacheMetricsSource {
  /** One per model version that is loaded. */
  stats(): Iterable<ModelStats>;
  /** Whether answers of the model version are kept. */
  keepsAnswers(model: string, version: string): boolean;
  figures(): {
    /** undefined for a store that others share. */
    readonly held: { readonly entries: number; readonly bytes: number } | undefined;
    readonly failures: number;
  };
}

/** The metrics of a response cache, Triton's for each model whose answers are kept. */
export function registerCacheMetrics(registry: Registry, source: CacheMetricsSource): void {
  const perModel = (name: string, help: string, value: (stats: ModelStats) => number) =>
    registerCollected(registry, 'counter', name, help, () => samples(source, value));
  perModel('nv_cache_num_hits_per_model', 'Number of cache hits per model', (s) => s.cacheHit.count);
  perModel('nv_cache_num_misses_per_model', 'Number of cache misses per model', (s) => s.cacheMiss.count);
  perModel('nv_cache_hit_duration_per_model', 'Cumulative duration of cache lookups that hit, in microseconds', (s) =>
    microseconds(s.cacheHit),
  );
  perModel(
    'nv_cache_miss_duration_per_model',
    'Cumulative duration of cache lookups that missed and of keeping their answers, in microseconds',
    (s) => microseconds(s.cacheMiss),
  );
  const { held } = source.figures();
  if (held) {
    registerCollected(registry, 'gauge', 'millrace_cache_entries', 'Answers in the response cache', () => [
      { labels: {}, value: source.figures().held?.entries ?? 0 },
    ]);
    registerCollected(registry, 'gauge', 'millrace_cache_bytes', 'Bytes of the response cache in use', () => [
      { labels: {}, value: source.figures().held?.bytes ?? 0 },
    ]);
  }
  registerCollected(
    registry,
    'counter',
    'millrace_cache_failures_total',
    'Lookups and writes that the response cache could not do; each counted as a miss',
    () => [{ labels: {}, value: source.figures().failures }],
  );
}

function samples(source: CacheMetricsSource, value: (stats: ModelStats) => number): Sample[] {
  const kept = Array.from(source.stats()).filter(({ model, version }) => source.keepsAnswers(model, version));
  return kept.map((stats) => ({
    labels: { ...stats.tags, model: stats.model, version: stats.version },
    value: value(stats),
  }));
}

function microseconds({ ns }: CountAndNs): number {
  return Math.floor(ns / 1000);
}
