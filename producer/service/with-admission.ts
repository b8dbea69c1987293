import { InferError } from '../../shared/errors.ts';
import type { InferFn } from '../../shared/infer/ports.ts';
import type { InferRequest } from '../../shared/infer/request.ts';
import type { Admission } from './admission.ts';

/** Lets a request through while there is room for it, and counts it until it has settled. */
export function withAdmission(admission: Admission, next: InferFn): InferFn {
  return (request, call) => {
    const byteLength = inputBytes(request);
    try {
      admission.enter(byteLength);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
    const leave = (): void => admission.leave(byteLength);
    const result = next(request, call);
    result.then(leave, leave);
    return result;
  };
}

function inputBytes(request: InferRequest): number {
  let byteLength = 0;
  for (const { data } of request.inputs) byteLength += data.byteLength;
  return byteLength;
}
