import { InferError } from '../../shared/errors.ts';
import type { InferFn, ModelCatalog } from '../../shared/infer/ports.ts';
import { assertRequestFits } from './validate-request.ts';

/** Turns requests away that do not fit their model, before they cost anything. */
export function withValidation(catalog: ModelCatalog, next: InferFn): InferFn {
  return (request, call) => {
    try {
      assertRequestFits(catalog.resolve(request.model, request.version), request);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
    return next(request, call);
  };
}
