import { timingSafeEqual } from 'node:crypto';
import { sha256Hex } from '../../../shared/sha256.ts';
import { InferError } from '../../../shared/errors.ts';
import type { Tenant } from './tenant.ts';

/** What became of a tenant's requests. */
export interface TenantCounts {
  admitted: number;
  refused: number;
}

/** The value of a header that the client sent, by its name in lower case. */
type HeaderOf = (name: string) => string | undefined;

/** Who may send requests, in force now; the list can be replaced at any time. */
export class Tenants {
  #byName: ReadonlyMap<string, Tenant> = new Map();
  #byHash: ReadonlyMap<string, Tenant> = new Map();
  readonly #counts = new Map<string, TenantCounts>();

  constructor(tenants: readonly Tenant[]) {
    this.replace(tenants);
  }

  /** From now on these and no others. What is in hand goes on. */
  replace(tenants: readonly Tenant[]): void {
    this.#byName = new Map(tenants.map((tenant) => [tenant.name, tenant]));
    this.#byHash = new Map(tenants.flatMap((tenant) => tenant.keyHashes.map((hash) => [hash, tenant])));
    for (const name of this.#counts.keys()) if (!this.#byName.has(name)) this.#counts.delete(name);
    for (const { name } of tenants) if (!this.#counts.has(name)) this.#counts.set(name, { admitted: 0, refused: 0 });
  }

  /**
   * Whose key came with a request, as `authorization: Bearer KEY` or `x-api-key: KEY`.
   * @throws InferError UNAUTHENTICATED, which does not say what was sent
   */
  identify(headerOf: HeaderOf): string {
    const key = keyOf(headerOf);
    if (key === undefined) {
      throw new InferError('UNAUTHENTICATED', 'no API key: send "Authorization: Bearer KEY" or "X-API-Key: KEY"');
    }
    // Only the hash is looked up, of which nobody can choose a part; the comparison leaves no trace in time either.
    const hash = sha256Hex(key);
    const tenant = this.#byHash.get(hash);
    const isKnown = tenant?.keyHashes.some((own) => timingSafeEqual(Buffer.from(own), Buffer.from(hash))) ?? false;
    if (!tenant || !isKnown) throw new InferError('UNAUTHENTICATED', 'the API key is not known');
    return tenant.name;
  }

  find(name: string): Tenant | undefined {
    return this.#byName.get(name);
  }

  /** @throws InferError UNAUTHENTICATED for a tenant that is not there any more, PERMISSION_DENIED for a model it may not use */
  assertMayUse(name: string, model: string): void {
    const tenant = this.#byName.get(name);
    if (!tenant) throw new InferError('UNAUTHENTICATED', 'the API key is not known any more');
    if (tenant.models === undefined || tenant.models.has(model)) return;
    throw new InferError('PERMISSION_DENIED', `the API key of ${name} does not open model '${model}'`);
  }

  /** Its part of so many, by the weights of all that there are; one at least. */
  shareOf(name: string, amount: number): number {
    let weights = 0;
    for (const { party } of this.#byName.values()) weights += party.weight;
    const weight = this.#byName.get(name)?.party.weight ?? 0;
    return Math.max(1, Math.floor((amount * weight) / Math.max(1, weights)));
  }

  /** Of so many jobs, how many it may have open. */
  jobsOf(name: string, all: number): number {
    const own = this.#byName.get(name)?.maxJobs ?? 0;
    return own > 0 ? Math.min(own, all) : this.shareOf(name, all);
  }

  /** Bytes that the tensors of its open jobs may have; 0 for any number. */
  jobBytesOf(name: string): number {
    return this.#byName.get(name)?.maxJobBytes ?? 0;
  }

  count(name: string, result: keyof TenantCounts): void {
    const counts = this.#counts.get(name);
    if (counts) counts[result] += 1;
  }

  /** By name, of those that are there now. */
  counts(): ReadonlyMap<string, Readonly<TenantCounts>> {
    return this.#counts;
  }
}

const BEARER = /^Bearer +([^\s]+) *$/i;

function keyOf(headerOf: HeaderOf): string | undefined {
  const bearer = BEARER.exec(headerOf('authorization') ?? '')?.[1];
  return bearer ?? (headerOf('x-api-key') || undefined); // an empty one is none
}
