import type { Registry } from 'prom-client';
import type { CacheSettings } from '../producer/service/cache/cache-settings.ts';
import { LocalStore } from '../producer/service/cache/local-store.ts';
import { RedisStore } from '../producer/service/cache/redis-store.ts';
import type { ResponseStore } from '../producer/service/cache/response-store.ts';
import type { MeasuredDispatcher } from '../producer/service/services.ts';
import { registerCacheMetrics } from '../shared/runtime/cache-metrics.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import type { QueueKeys } from '../shared/wire/queue-keys.ts';

/** The store that `--cache-config` asks for. A Redis that cannot be reached is tried again in the background. */
export async function createResponseStore(
  settings: CacheSettings,
  logger: Logger,
  keys?: QueueKeys,
): Promise<ResponseStore> {
  if (settings.kind === 'local') return new LocalStore(settings.maxBytes);
  const store = new RedisStore(settings, logger, keys);
  await store.start();
  return store;
}

export function addCacheMetrics(registry: Registry, store: ResponseStore, dispatcher: MeasuredDispatcher): void {
  registerCacheMetrics(registry, {
    stats: () => dispatcher.stats(),
    figures: () => store.figures(),
    keepsAnswers(model, version) {
      try {
        return dispatcher.catalog.resolve(model, version).identity !== undefined;
      } catch {
        return false; // it is not there any more
      }
    },
  });
}

/** Without a cache `response_cache` in a config is a wish that nobody grants, and that is said. */
export function warnWithoutCache({ catalog }: Pick<MeasuredDispatcher, 'catalog'>, logger: Logger): void {
  for (const { name, version, state } of catalog.list()) {
    if (state !== 'READY' || version === undefined) continue;
    if (catalog.resolve(name, version).config.responseCache?.enable !== true) continue;
    logger.warn({ model: name, version }, 'response_cache does nothing without --cache-config');
  }
}
