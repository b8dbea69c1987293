import type { Registry } from 'prom-client';
import type { CacheSettings } from '../producer/service/cache/cache-settings.ts';
import { LocalStore } from '../producer/service/cache/local-store.ts';
import { RedisStore } from '../producer/service/cache/redis-store.ts';
import type { ResponseStore } from '../producer/service/cache/response-store.ts';
import type { MeasuredDispatcher } from '../producer/service/services.ts';
import { registerCacheMetrics } from '../shared/runtime/cache-metrics.ts';
import type { Logger } from '../shared/runtime/logger.ts';

/** The store that `--cache-config` asks for. A Redis that cannot be reached is tried again in the background. */
export async function createResponseStore(settings: CacheSettings, logger: Logger): Promise<ResponseStore> {
  if (settings.kind === 'local') return new LocalStore(settings.maxBytes);
  const store = new RedisStore(settings, logger);
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
