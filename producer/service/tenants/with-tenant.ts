import { type ErrorCode, InferError } from '../../../shared/errors.ts';
import type { InferFn } from '../../../shared/infer/ports.ts';
import type { Tenants } from './tenants.ts';

const REFUSED: ReadonlySet<ErrorCode> = new Set(['RESOURCE_EXHAUSTED', 'PERMISSION_DENIED', 'UNAUTHENTICATED']);

/** Lets a tenant's requests through to the models that its key opens, and counts them. */
export function withTenant(tenants: Tenants, next: InferFn): InferFn {
  return async (request, call) => {
    try {
      tenants.assertMayUse(call.tenant, request.model);
      const response = await next(request, call);
      tenants.count(call.tenant, 'admitted');
      return response;
    } catch (error) {
      const { code } = InferError.from(error);
      tenants.count(call.tenant, REFUSED.has(code) ? 'refused' : 'admitted');
      throw error;
    }
  };
}
