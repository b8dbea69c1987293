import { InferError } from '../../../shared/errors.ts';
import type { InferFn, ModelCatalog } from '../../../shared/infer/ports.ts';
import { type InferRequest, rowsOf } from '../../../shared/infer/request.ts';
import { queueParametersOf } from '../../../shared/model/queue-parameters.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Pace } from '../pace.ts';
import type { Tenants } from '../tenants/tenants.ts';
import { inputBytes } from '../with-admission.ts';
import { type Amounts, type Ask, isLimited, type Party, type Refusal, type SharedLimits } from './limits.ts';

export interface LimitsParts {
  readonly limits: SharedLimits;
  /** Of all models and tenants together. */
  readonly pool: Amounts;
  readonly catalog: Pick<ModelCatalog, 'resolve'>;
  /** Undefined where requests need no key. */
  readonly tenants: Tenants | undefined;
  readonly pace: Pace;
}

/**
 * Lets a request through while the pool, its model and its tenant have room for it, and counts it until it has settled. One
 * that nothing limits passes without a step.
 */
export function withLimits(parts: LimitsParts, next: InferFn): InferFn {
  const { limits, pool, catalog, tenants, pace } = parts;
  const poolIsLimited = isLimited(pool);
  const parties = new WeakMap<ReadyModel, Party>();

  return (request, call) => {
    let ask: Ask | undefined;
    try {
      ask = askOf(request, call.tenant);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
    return ask ? carry(ask, request, call) : next(request, call);
  };

  async function carry(ask: Ask, ...[request, call]: Parameters<InferFn>): ReturnType<InferFn> {
    const refusal = await limits.enter(ask);
    if (refusal) throw refusalError(ask, refusal, pace);
    try {
      if (call.error) throw call.error;
      return await next(request, call);
    } finally {
      limits.leave(ask);
    }
  }

  /** Undefined for a request that nothing limits. @throws InferError for one that can never come in */
  function askOf(request: InferRequest, tenantName: string): Ask | undefined {
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
  }
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
