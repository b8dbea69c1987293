import { createHash } from 'node:crypto';
import { parseTenants } from '../../producer/service/tenants/parse-tenants.ts';
import { Tenants } from '../../producer/service/tenants/tenants.ts';

/** Fields of the keys file beside `name`, with the key in clear. */
export interface TenantFields {
  readonly key: string;
  readonly [field: string]: unknown;
}

/** The text of a keys file, by the names of tenants. */
export function keysFileOf(tenants: Readonly<Record<string, TenantFields>>): string {
  const list = Object.entries(tenants).map(([name, { key, ...fields }]) => {
    return { name, key_sha256: [createHash('sha256').update(key).digest('hex')], ...fields };
  });
  return JSON.stringify({ tenants: list });
}

export function tenantsOf(tenants: Readonly<Record<string, TenantFields>>): Tenants {
  return new Tenants(parseTenants(keysFileOf(tenants)));
}
