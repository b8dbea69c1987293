import type { Tenants } from './tenants.ts';

/**
 * Before a model is loaded for a request: refuses, and counts, one whose key does not open it.
 * @param tenants undefined where requests need no key
 */
export function assertMayWake(tenants: Tenants | undefined, tenant: string, model: string): void {
  try {
    tenants?.assertMayUse(tenant, model);
  } catch (error) {
    tenants?.count(tenant, 'refused');
    throw error;
  }
}
