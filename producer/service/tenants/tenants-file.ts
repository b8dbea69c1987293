import { FollowedFile } from '../../../shared/runtime/followed-file.ts';
import { parseTenants } from './parse-tenants.ts';
import type { Tenant } from './tenant.ts';
import { Tenants } from './tenants.ts';

/** The tenants of a file, which is read again when it changes. */
export class TenantsFile extends FollowedFile<Tenant[]> {
  readonly tenants: Tenants;

  /** @throws InferError INVALID_ARGUMENT with one clear line */
  constructor(path: string) {
    const tenants = new Tenants([]);
    const options = { path, flag: '--api-keys-file', what: 'api keys', parse: parseTenants };
    super(options, (found) => tenants.replace(found));
    this.tenants = tenants;
  }
}
