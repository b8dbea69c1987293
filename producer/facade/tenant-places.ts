import { InferError } from '../../shared/errors.ts';
import type { Tenants } from '../service/tenants/tenants.ts';

/** Places for what lasts, such as a stream: so many in all, and each tenant has its share, so that none takes those of others. */
export class TenantPlaces {
  readonly #max: number;
  readonly #tenants: Pick<Tenants, 'shareOf'> | undefined;
  readonly #refusal: (taken: number, tenant: string) => string;
  readonly #taken = new Map<string, number>();
  #count = 0;

  /**
   * @param tenants undefined where requests need no key
   * @param refusal the text for one that finds no place: how many are taken, by the tenant alone unless that is ''
   */
  constructor(
    max: number,
    tenants: Pick<Tenants, 'shareOf'> | undefined,
    refusal: (taken: number, tenant: string) => string,
  ) {
    this.#max = max;
    this.#tenants = tenants;
    this.#refusal = refusal;
  }

  /**
   * Takes one, and returns what gives it back.
   * @throws InferError RESOURCE_EXHAUSTED when there is none
   */
  take(tenant: string): () => void {
    const own = this.#taken.get(tenant) ?? 0;
    const share = this.#tenants?.shareOf(tenant, this.#max) ?? this.#max;
    if (this.#count >= this.#max) throw this.#full(this.#count, '');
    if (own >= share) throw this.#full(own, tenant);
    this.#change(tenant, 1);
    let given = false;
    return () => {
      if (given) return;
      given = true;
      this.#change(tenant, -1);
    };
  }

  #full(taken: number, tenant: string): InferError {
    return new InferError('RESOURCE_EXHAUSTED', this.#refusal(taken, tenant));
  }

  #change(tenant: string, by: 1 | -1): void {
    this.#count += by;
    const own = (this.#taken.get(tenant) ?? 0) + by;
    if (own === 0) this.#taken.delete(tenant);
    else this.#taken.set(tenant, own);
  }
}
