import type { Dispatcher, InferFn } from '../../shared/infer/ports.ts';
import { type Clock, systemClock } from '../../shared/runtime/clock.ts';
import type { Admission } from './admission.ts';
import { withAdmission } from './with-admission.ts';
import { withDeadline } from './with-deadline.ts';

/** Everything around one call, outermost first: this is the one place that lists it. */
export function createService(dispatcher: Dispatcher, admission: Admission, clock: Clock = systemClock): InferFn {
  return withAdmission(
    admission,
    withDeadline(clock, (request, call) => dispatcher.infer(request, call)),
  );
}
