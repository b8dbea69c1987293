import fc from 'fast-check';
import type { Amounts, Ask, TenantParty } from '../../../../../producer/service/limits/limits.ts';

export const NONE: Amounts = { requests: 0, rows: 0, bytes: 0 };

/** A request of one row and one byte, of model m, without limits, unless told otherwise. */
export function askOf(more: Partial<Ask> = {}): Ask {
  return { model: { name: 'm', weight: 1, max: NONE }, tenant: undefined, pool: NONE, rows: 1, bytes: 1, ...more };
}

export function modelOf(name: string, weight = 1, max: Partial<Amounts> = {}) {
  return { name, weight, max: { ...NONE, ...max } };
}

export function tenantOf(name: string, more: Partial<TenantParty> = {}): TenantParty {
  return { name, weight: 1, max: NONE, intervalUs: 0, burst: 1, ...more };
}

/** What happens to the counts: a request comes, one of those in hand leaves, time passes. */
export type Step =
  | { readonly kind: 'enter'; readonly ask: Ask }
  | { readonly kind: 'leave'; readonly pick: number }
  | { readonly kind: 'wait'; readonly us: number };

/** Few models and tenants with small limits, so that all of them are met often. */
export function stepsArbitrary(): fc.Arbitrary<readonly Step[]> {
  const limit = (most: number) => fc.oneof(fc.constant(0), fc.integer({ min: 1, max: most }));
  const amounts = fc.record({ requests: limit(12), rows: limit(30), bytes: limit(300) });
  const models = fc.tuple(party('a', amounts), party('b', amounts), party('c', amounts));
  const tenants = fc.tuple(tenant('x', amounts), tenant('y', amounts));
  return fc.tuple(amounts, models, tenants).chain(([pool, ofModels, ofTenants]) => {
    const ask = fc.record({
      model: fc.constantFrom(...ofModels),
      tenant: fc.constantFrom(undefined, ...ofTenants),
      pool: fc.constant(pool),
      rows: fc.integer({ min: 1, max: 8 }),
      bytes: fc.integer({ min: 0, max: 90 }),
    });
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ kind: fc.constant('enter' as const), ask }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('leave' as const), pick: fc.nat(1000) }) },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constant('wait' as const), us: fc.integer({ min: 0, max: 12_000_000 }) }),
      },
    );
    return fc.array(step, { maxLength: 80 });
  });
}

function party(name: string, max: fc.Arbitrary<Amounts>) {
  return fc.record({ name: fc.constant(name), weight: fc.integer({ min: 1, max: 5 }), max });
}

function tenant(name: string, max: fc.Arbitrary<Amounts>) {
  const intervalUs = fc.constantFrom(0, 0, 500_000, 15_000_000);
  return fc.record({
    name: fc.constant(name),
    weight: fc.integer({ min: 1, max: 5 }),
    max,
    intervalUs,
    burst: fc.integer({ min: 1, max: 4 }),
  });
}
