import { InferError } from '../../../../../shared/errors.ts';
import { loadError, type OrtFailure } from '../ort-error.ts';
import { cudaProblemText, explainCudaError } from './cuda-error.ts';

/** The error for a model file that could not be loaded onto a GPU. */
export function gpuLoadError(failure: OrtFailure, modelPath: string, gpu: number): InferError {
  const problem = explainCudaError(failure.text, gpu);
  if (!problem) return loadError(failure, modelPath);
  const code = problem.stage === 'memory' ? 'RESOURCE_EXHAUSTED' : 'UNAVAILABLE';
  const what = problem.stage === 'memory' ? 'by the weights of the model' : 'for the model';
  const text = `GPU ${gpu} cannot be used ${what}: ${cudaProblemText(problem)}`;
  return new InferError(problem.stage === 'fallback' ? 'INVALID_ARGUMENT' : code, text, { cause: failure });
}

/**
 * A failed run on a GPU in words that say what to do. An allocation that failed stays RESOURCE_EXHAUSTED, whereupon the
 * batch runs again in halves.
 */
export function gpuRunError(error: InferError, gpu: number): InferError {
  const problem = explainCudaError(error.message, gpu);
  if (!problem) return error;
  const code = problem.stage === 'memory' ? 'RESOURCE_EXHAUSTED' : error.code;
  return new InferError(code, `the model could not run on GPU ${gpu}: ${cudaProblemText(problem)}`, { cause: error });
}
