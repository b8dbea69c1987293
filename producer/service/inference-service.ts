import type { ModelStats } from '../../shared/infer/model-stats.ts';
import type { Dispatcher, InferFn } from '../../shared/infer/ports.ts';
import { type Clock, systemClock } from '../../shared/runtime/clock.ts';
import type { Admission } from './admission.ts';
import type { ResponseStore } from './cache/response-store.ts';
import { withResponseCache } from './cache/with-response-cache.ts';
import type { Gate } from './limits/gate.ts';
import { withLimits } from './limits/with-limits.ts';
import type { Pace } from './pace.ts';
import type { Tenants } from './tenants/tenants.ts';
import { withTenant } from './tenants/with-tenant.ts';
import type { Traffic } from './traffic/traffic.ts';
import { withAdmission } from './with-admission.ts';
import { withDeadline } from './with-deadline.ts';

export interface ServiceParts {
  readonly dispatcher: Pick<Dispatcher, 'infer' | 'catalog'> & { statsOf(model: string, version: string): ModelStats };
  readonly admission: Admission;
  readonly pace: Pace;
  /** What all who share the counts have in hand, and how much of it there may be. */
  readonly gate: Gate;
  /** Undefined where requests need no key. */
  readonly tenants: Tenants | undefined;
  readonly traffic: Traffic;
  /** Undefined where no answers are kept, which then costs nothing. */
  readonly responseStore?: ResponseStore | undefined;
  readonly clock?: Clock;
}

/** What carries requests that were admitted elsewhere, and whose answers are kept elsewhere: jobs. */
export function createJobRunner(parts: Pick<ServiceParts, 'dispatcher' | 'traffic' | 'clock'>): InferFn {
  const { dispatcher, traffic, clock = systemClock } = parts;
  return withDeadline(
    clock,
    traffic.wrap((request, call) => dispatcher.infer(request, call)),
  );
}

/** Everything around one call, outermost first: this is the one place that lists it. */
export function createService(parts: ServiceParts): InferFn {
  const { dispatcher, admission, pace, gate, tenants, traffic, responseStore } = parts;
  const { clock = systemClock } = parts;
  const dispatch: InferFn = (request, call) => dispatcher.infer(request, call);
  const { catalog } = dispatcher;
  const limited = withLimits(gate, traffic.wrap(withCache(dispatch)));
  const admitted = withAdmission(admission, pace, withDeadline(clock, limited));
  return tenants ? withTenant(tenants, admitted) : admitted;

  function withCache(next: InferFn): InferFn {
    if (!responseStore) return next;
    const statsOf = (model: string, version: string) => dispatcher.statsOf(model, version);
    return withResponseCache({ store: responseStore, catalog, statsOf, clock }, next);
  }
}
