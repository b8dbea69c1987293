import type { ModelStats } from '../../shared/infer/model-stats.ts';
import type { Dispatcher, InferFn } from '../../shared/infer/ports.ts';
import { type Clock, systemClock } from '../../shared/runtime/clock.ts';
import type { Admission } from './admission.ts';
import type { ResponseStore } from './cache/response-store.ts';
import { withResponseCache } from './cache/with-response-cache.ts';
import type { Traffic } from './traffic/traffic.ts';
import { withAdmission } from './with-admission.ts';
import { withDeadline } from './with-deadline.ts';

export interface ServiceParts {
  readonly dispatcher: Pick<Dispatcher, 'infer' | 'catalog'> & { statsOf(model: string, version: string): ModelStats };
  readonly admission: Admission;
  readonly traffic: Traffic;
  /** Undefined where no answers are kept, which then costs nothing. */
  readonly responseStore?: ResponseStore | undefined;
  readonly clock?: Clock;
}

/** Everything around one call, outermost first: this is the one place that lists it. */
export function createService(parts: ServiceParts): InferFn {
  const { dispatcher, admission, traffic, responseStore, clock = systemClock } = parts;
  const dispatch: InferFn = (request, call) => dispatcher.infer(request, call);
  return withAdmission(admission, withDeadline(clock, traffic.wrap(withCache(dispatch))));

  function withCache(next: InferFn): InferFn {
    if (!responseStore) return next;
    const { catalog } = dispatcher;
    const statsOf = (model: string, version: string) => dispatcher.statsOf(model, version);
    return withResponseCache({ store: responseStore, catalog, statsOf, clock }, next);
  }
}
