import type { InferResponse, Timings } from '../../../shared/infer/response.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';

/** Of an answer for which nothing ran. */
const NOTHING_RAN: Timings = Object.freeze({
  queueUs: 0,
  computeInputUs: 0,
  computeInferUs: 0,
  computeOutputUs: 0,
  batchSize: 0,
  executions: 0,
  release: 'direct',
});

/** The same answer in memory of its own, as it is given to those who have not run it. */
export function copyResponse({ model, version, outputs, parameters, identity }: InferResponse): InferResponse {
  return { model, version, outputs: outputs.map(copyTensor), parameters, timings: NOTHING_RAN, identity };
}

/** An answer that a store brought, in memory that is the receiver's alone. */
export function asKept({ model, version, outputs, parameters, identity }: InferResponse): InferResponse {
  return { model, version, outputs, parameters, timings: NOTHING_RAN, identity };
}

function copyTensor({ name, datatype, shape, data }: Tensor): Tensor {
  // `slice` of a Buffer would be a view.
  return { name, datatype, shape: [...shape], data: Uint8Array.prototype.slice.call(data) };
}
