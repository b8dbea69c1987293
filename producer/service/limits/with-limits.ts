import { InferError } from '../../../shared/errors.ts';
import type { InferFn } from '../../../shared/infer/ports.ts';
import type { Gate } from './gate.ts';
import type { Ask } from './limits.ts';

/**
 * Lets a request through while the pool, its model and its tenant have room for it, and counts it until it has settled. One
 * that nothing limits passes without a step.
 */
export function withLimits(gate: Gate, next: InferFn): InferFn {
  return (request, call) => {
    let ask: Ask | undefined;
    try {
      ask = gate.askOf(request, call.tenant);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
    return ask ? carry(ask, request, call) : next(request, call);
  };

  async function carry(ask: Ask, ...[request, call]: Parameters<InferFn>): ReturnType<InferFn> {
    const refusal = await gate.enter(ask);
    if (refusal) throw gate.errorOf(ask, refusal);
    try {
      if (call.error) throw call.error;
      return await next(request, call);
    } finally {
      gate.leave(ask);
    }
  }
}
