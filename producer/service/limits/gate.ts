import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import { type InferRequest, rowsOf } from '../../../shared/infer/request.ts';
import { queueParametersOf } from '../../../shared/model/queue-parameters.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { NewJob } from '../jobs/job-store.ts';
import type { Pace } from '../pace.ts';
import type { Tenants } from '../tenants/tenants.ts';
import { inputBytes } from '../with-admission.ts';
import { type Amounts, type Ask, isLimited, type Party, type Refusal, type SharedLimits } from './limits.ts';

export interface GateParts {
  readonly limits: SharedLimits;
  /** Of all models and tenants together. */
  readonly pool: Amounts;
  readonly catalog: Pick<ModelCatalog, 'resolve'>;
  /** Undefined where requests need no key. */
  readonly tenants: Tenants | undefined;
  readonly pace: Pace;
}

/** What is limited, and who comes in. */
export interface Gate {
  /** Undefined for a request that nothing limits. @throws InferError for one that can never come in */
  askOf(request: InferRequest, tenant: string): Ask | undefined;
  /** Takes a place, to be given back with `leave`; undefined means that it was given. @throws InferError UNAVAILABLE */
  enter(ask: Ask): Promise<Refusal | undefined>;
  /** What whoever was refused is told. */
  errorOf(ask: Ask, refusal: Refusal): InferError;
  leave(ask: Ask): void;
}

export function createGate({ limits, pool, catalog, tenants, pace }: GateParts): Gate {
  const poolIsLimited = isLimited(pool);
  const parties = new WeakMap<ReadyModel, Party>();
  return {
    askOf(request, tenantName) {
      const ready = catalog.resolve(request.model, request.version);
      let model = parties.get(ready);
      if (!model) parties.set(ready, (model = partyOf(ready)));
      const tenant = tenants?.find(tenantName)?.party;
      const payer = tenant && (poolIsLimited || isLimited(tenant.max) || tenant.intervalUs > 0) ? tenant : undefined;
      if (!poolIsLimited && !payer && !isLimited(model.max)) return undefined;
      const rows = rowsOf(ready.maxBatchSize > 0, request.inputs);
      const ask: Ask = { model, tenant: payer, pool, rows, bytes: inputBytes(request) };
      assertEverFits(ask);
      return ask;
    },
    enter: (ask) => limits.enter(ask),
    errorOf: (ask, refusal) => refusalError(ask, refusal, pace),
    leave: (ask) => limits.leave(ask),
  };
}

/**
 * Has the submission of a job come in as a request does: it counts against the rate of its tenant, and while it is being
 * taken against the limits of what is in hand. What lies in the queue afterwards has limits of its own.
 */
export function admitJobs(gate: Gate, tenants: Tenants | undefined) {
  return async <T>({ request, tenant }: Pick<NewJob, 'request' | 'tenant'>, take: () => Promise<T>): Promise<T> => {
    let ask: Ask | undefined;
    try {
      ask = gate.askOf(request, tenant);
      const refusal = ask && (await gate.enter(ask));
      if (ask && refusal) throw gate.errorOf(ask, refusal);
    } catch (error) {
      if (InferError.from(error).code === 'RESOURCE_EXHAUSTED') tenants?.count(tenant, 'refused');
      throw error;
    }
    try {
      const taken = await take();
      tenants?.count(tenant, 'admitted');
      return taken;
    } catch (error) {
      const isRefused = InferError.from(error).code === 'RESOURCE_EXHAUSTED';
      tenants?.count(tenant, isRefused ? 'refused' : 'admitted');
      throw error;
    } finally {
      if (ask) gate.leave(ask);
    }
  };
}

function partyOf({ name, config }: ReadyModel): Party {
  const { weight, maxRequests: requests, maxRows: rows, maxBytes: bytes } = queueParametersOf(config);
  return { name, weight, max: { requests, rows, bytes } };
}

function assertEverFits({ model, tenant, pool, ...ask }: Ask): void {
  for (const what of ['rows', 'bytes'] as const) {
    const limits = [
      [`model ${model.name} takes`, model.max[what]],
      ['the pool takes', pool[what]],
      [`tenant ${tenant?.name ?? ''} may have`, tenant?.max[what] ?? 0],
    ] as const;
    for (const [who, limit] of limits) {
      if (limit === 0 || ask[what] <= limit) continue;
      throw new InferError('INVALID_ARGUMENT', `${who} at most ${limit} ${what} at once, the request has ${ask[what]}`);
    }
  }
}

function refusalError(ask: Ask, refusal: Refusal, pace: Pace): InferError {
  const { scope, what, perSecond, waitUs } = refusal;
  const retryAfterMs =
    what === 'rate'
      ? Math.max(1000, waitUs / 1000)
      : pace.retryAtMs(requestsToLeave(refusal), perSecond, lineOf(ask, scope));
  const who = { pool: 'the pool', model: `model ${ask.model.name}`, tenant: `tenant ${ask.tenant?.name ?? ''}` }[scope];
  return new InferError('RESOURCE_EXHAUSTED', `${who} ${reasonOf(ask, refusal)}; try again later`, {
    refusedAt: 'entry',
    retryAfterMs,
  });
}

/** Where the refused stand. */
function lineOf({ model, tenant }: Ask, scope: Refusal['scope']): string {
  return { pool: 'pool', model: `model/${model.name}`, tenant: `tenant/${tenant?.name ?? ''}` }[scope];
}

function reasonOf(ask: Ask, { what, inHand, limit, keptFor }: Refusal): string {
  if (what === 'rate') {
    const perSecond = Number((1_000_000 / (ask.tenant?.intervalUs ?? 1)).toPrecision(3));
    return `may send ${perSecond} requests a second, and has sent more`;
  }
  const full = `is busy: ${inHand} of ${limit} ${what} are in hand`;
  if (keptFor !== undefined) return `${full}, and the room that is left is kept for other ${keptFor}`;
  const more = what === 'requests' ? '' : `, no room for ${ask[what]} more`;
  return `${full}${more}`;
}

/** How many requests of middling size make room for the one that was refused. */
function requestsToLeave({ what, excess, inHand, requestsInHand }: Refusal): number {
  if (what === 'requests' || what === 'rate' || inHand === 0) return Math.max(1, excess);
  return Math.max(1, Math.ceil((excess * requestsInHand) / inHand));
}
