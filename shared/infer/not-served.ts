import { InferError } from '../errors.ts';
import { shownText } from '../tensor/text.ts';
import { type ModelState, UNLOADED } from './ports.ts';

/**
 * A model version does not answer here and now, and nothing of the request was run: where others serve the model, they may
 * answer it.
 */
export class NotServed extends InferError {}

export function unknownModel(name: string): NotServed {
  return new NotServed('NOT_FOUND', `Request for unknown model: '${name}' is not found`);
}

export function unknownVersion(name: string, version: string): NotServed {
  return new NotServed('NOT_FOUND', `Request for unknown model: '${name}' version ${version} is not found`);
}

/** What a request is told that came for a version which is not READY. One that was unloaded is as good as unknown. */
export function notReady(name: string, { state, reason }: Pick<ModelState, 'state' | 'reason'>): NotServed {
  if (state === 'UNKNOWN') return new NotServed('NOT_FOUND', `Request for unknown model: '${name}' is not loaded`);
  if (reason === UNLOADED) {
    return new NotServed('NOT_FOUND', `Request for unknown model: '${name}' is unloaded`);
  }
  const why = state === 'LOADING' ? '' : reason;
  return new NotServed('UNAVAILABLE', `model '${name}' is not ready: ${why || 'it is being loaded'}`);
}

/** What a load or an unload is answered where models cannot be controlled; the first words are Triton's. */
export function controlRefused(model: string, action: 'load' | 'unload', why: string): InferError {
  const text = `failed to ${action} '${shownText(model)}': explicit model load / unload is not allowed`;
  return new InferError('UNAVAILABLE', `${text}: ${why}`);
}

/** The same for how its requests are spread over its versions. */
export function trafficRefused(model: string, why: string): InferError {
  return new InferError('UNAVAILABLE', `the traffic of '${shownText(model)}' cannot be changed here: ${why}`);
}
