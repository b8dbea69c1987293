import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import { shownShape } from '../../../shared/tensor/text.ts';
import { deadlineError } from '../schedule/deadline-sweep.ts';
import type { BoundStep } from './bind-members.ts';
import type { Slots } from './step-tensors.ts';

/** The error of a step as the client of the ensemble gets it: with its own code, and with all that tells which step. */
export function explainStepError(
  ensemble: string,
  { step, served, inputs }: BoundStep,
  slots: Slots,
  call: Call,
  cause: unknown,
): InferError {
  const error = InferError.from(cause, 'the step failed');
  const { code } = error;
  const where = `ensemble '${ensemble}', step ${step.index + 1} (model '${step.model}', version ${served.ready.version})`;
  let { message } = error;
  if (code === 'DEADLINE_EXCEEDED') {
    message = deadlineError(call).message; // the step's own knows only how much time was left for it
  } else if (code === 'INVALID_ARGUMENT') {
    const given = inputs.flatMap(({ spec, slot }) => {
      const tensor = slots[slot];
      const source = step.inputs.find(({ name }) => name === spec.name)?.tensor ?? '';
      return tensor ? [`${spec.name} is tensor '${source}' ${shownShape(tensor.shape)}`] : [];
    });
    message += ` (in this step ${given.join(', ')})`;
  }
  // The ensemble has taken the request in, wherever the step was turned away.
  const refusedAt = error.refusedAt && 'queue';
  return new InferError(code, `${where}: ${message}`, { cause: error, refusedAt });
}
