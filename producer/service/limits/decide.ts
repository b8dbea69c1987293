import { Rate } from '../pace.ts';
import {
  type Amounts,
  type Ask,
  DIMENSIONS,
  type Dimension,
  type Party,
  type Refusal,
  type TenantParty,
} from './limits.ts';

/** Who has asked within this time, in microseconds, shares what there is even with nothing in hand. */
export const ACTIVE_US = 10_000_000;

/** What a model or a tenant has in hand. */
export interface Holder {
  requests: number;
  rows: number;
  bytes: number;
  weight: number;
  askedUs: number;
  /** When its requests so far would have come at the rate that it may have; see `waitOf`. */
  dueUs: number;
  readonly rate: Rate;
}

export interface LimitsState {
  readonly total: { -readonly [D in Dimension]: number } & { readonly rate: Rate };
  readonly models: Map<string, Holder>;
  readonly tenants: Map<string, Holder>;
}

export function createLimitsState(nowUs: number): LimitsState {
  return {
    total: { requests: 0, rows: 0, bytes: 0, rate: new Rate(nowUs / 1000) },
    models: new Map(),
    tenants: new Map(),
  };
}

/**
 * Lets a request in and counts it, or says why not. In limits-script.ts the same stands in Lua; a test compares the two.
 *
 * Of the limits of the pool each active model has a share by its weight. Within its share it comes in whatever others do.
 * Above it borrows, and only what leaves the unused shares of the others free. So as long as the same models are active,
 * nobody is refused within their share: the sum of what each uses or could still claim never exceeds the limit. The same
 * holds among tenants.
 */
export function admit(state: LimitsState, ask: Ask, nowUs: number): Refusal | undefined {
  const model = touch(state.models, ask.model, nowUs);
  const tenant = ask.tenant && touch(state.tenants, ask.tenant, nowUs);
  const refusal = refusalOf(state, ask, model, tenant, nowUs);
  if (refusal) return refusal;
  if (ask.tenant && tenant && ask.tenant.intervalUs > 0) {
    tenant.dueUs = Math.max(tenant.dueUs, nowUs) + ask.tenant.intervalUs;
  }
  for (const counted of [state.total, model, tenant]) {
    if (!counted) continue;
    counted.rate.enter(nowUs / 1000);
    counted.requests += 1;
    counted.rows += ask.rows;
    counted.bytes += ask.bytes;
  }
  return undefined;
}

export function giveBack(state: LimitsState, { model, tenant, rows, bytes }: Ask, nowUs: number): void {
  const holders = [state.total, state.models.get(model.name), tenant && state.tenants.get(tenant.name)];
  for (const counted of holders) {
    if (!counted) continue;
    counted.rate.leave(nowUs / 1000, true);
    counted.requests -= 1;
    counted.rows -= rows;
    counted.bytes -= bytes;
  }
}

function refusalOf(
  { total, models, tenants }: LimitsState,
  ask: Ask,
  model: Holder,
  tenant: Holder | undefined,
  nowUs: number,
): Refusal | undefined {
  const own = aboveLimit('model', model, ask.model.max, ask, nowUs);
  if (own) return own;
  if (tenant && ask.tenant) {
    const refusal = aboveLimit('tenant', tenant, ask.tenant.max, ask, nowUs) ?? tooFast(tenant, ask.tenant, nowUs);
    if (refusal) return refusal;
  }
  const full = aboveLimit('pool', total, ask.pool, ask, nowUs);
  if (full) return full;
  return (
    aboveShare(total, models, model, ask, 'models', nowUs) ??
    (tenant && aboveShare(total, tenants, tenant, ask, 'tenants', nowUs))
  );
}

function touch(holders: Map<string, Holder>, { name, weight }: Party, nowUs: number): Holder {
  let holder = holders.get(name);
  if (!holder) {
    holder = { requests: 0, rows: 0, bytes: 0, weight, askedUs: nowUs, dueUs: 0, rate: new Rate(nowUs / 1000) };
    holders.set(name, holder);
  }
  holder.weight = weight;
  holder.askedUs = nowUs;
  return holder;
}

type Counted = Amounts & { readonly rate: Rate };

function aboveLimit(
  scope: Refusal['scope'],
  counted: Counted,
  max: Amounts,
  ask: Ask,
  nowUs: number,
): Refusal | undefined {
  for (const what of DIMENSIONS) {
    const excess = counted[what] + amountOf(ask, what) - max[what];
    if (max[what] > 0 && excess > 0) return refuse(scope, what, counted, max[what], excess, nowUs);
  }
  return undefined;
}

function tooFast(tenant: Holder, party: TenantParty, nowUs: number): Refusal | undefined {
  const waitUs = waitOf(tenant.dueUs, party, nowUs);
  if (waitUs <= 0) return undefined;
  return { ...refuse('tenant', 'requests', tenant, party.burst, 1, nowUs), what: 'rate', waitUs };
}

/** The generic cell rate algorithm: a bucket of `burst` tokens in one number. */
function waitOf(dueUs: number, { intervalUs, burst }: TenantParty, nowUs: number): number {
  if (intervalUs === 0) return 0;
  return Math.max(dueUs, nowUs) - nowUs - (burst - 1) * intervalUs;
}

function aboveShare(
  total: Counted,
  holders: Map<string, Holder>,
  holder: Holder,
  ask: Ask,
  keptFor: 'models' | 'tenants',
  nowUs: number,
): Refusal | undefined {
  let weights = 0;
  for (const what of DIMENSIONS) {
    const limit = ask.pool[what];
    if (limit === 0) continue;
    if (weights === 0) weights = sumOfWeights(holders, nowUs);
    const amount = amountOf(ask, what);
    if (holder[what] + amount <= shareOf(limit, holder, weights)) continue;
    let kept = 0;
    for (const other of holders.values()) {
      if (other === holder || !isActive(other, nowUs)) continue;
      kept += Math.max(0, shareOf(limit, other, weights) - other[what]);
    }
    const excess = total[what] + amount + kept - limit;
    if (excess > 0) return { ...refuse('pool', what, total, limit, excess, nowUs), keptFor };
  }
  return undefined;
}

/** Of those that are active; forgets the others, unless their rate is still to be known. */
function sumOfWeights(holders: Map<string, Holder>, nowUs: number): number {
  let sum = 0;
  for (const [name, holder] of holders) {
    if (isActive(holder, nowUs)) sum += holder.weight;
    else if (holder.dueUs <= nowUs) holders.delete(name);
  }
  return sum;
}

function isActive({ requests, askedUs }: Holder, nowUs: number): boolean {
  return requests > 0 || nowUs - askedUs <= ACTIVE_US;
}

function shareOf(limit: number, { weight }: Holder, weights: number): number {
  return Math.floor((limit * weight) / weights);
}

function amountOf(ask: Ask, what: Dimension): number {
  return what === 'requests' ? 1 : ask[what];
}

function refuse(
  scope: Refusal['scope'],
  what: Dimension,
  counted: Counted,
  limit: number,
  excess: number,
  nowUs: number,
): Refusal {
  return {
    scope,
    what,
    keptFor: undefined,
    inHand: counted[what],
    limit,
    excess,
    requestsInHand: counted.requests,
    waitUs: 0,
    perSecond: counted.rate.perSecond(nowUs / 1000),
  };
}
