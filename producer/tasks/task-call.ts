import type { Call } from '../../shared/infer/call.ts';
import type { InferFn } from '../../shared/infer/ports.ts';
import { NO_PARAMETERS } from '../../shared/infer/request.ts';
import type { ReadyModel } from '../../shared/model/ready-model.ts';
import type { Tensor } from '../../shared/tensor/tensor.ts';
import type { ModelProfile } from '../preprocess/model-profile.ts';
import type { Preprocessor } from '../preprocess/preprocessor.ts';
import { floatsOf, type Floats } from './floats.ts';
import type { TaskTimings } from './task-timings.ts';

/** One call of a model by photo, text or file: what it needs and where its time is noted. */
export interface TaskCall {
  readonly preprocessor: Preprocessor;
  readonly infer: InferFn;
  readonly model: ReadyModel;
  readonly profile: ModelProfile;
  readonly call: Call;
  readonly timings: TaskTimings;
}

/** Asks the model for the one output that the answer is read from. */
export async function inferOutput(task: TaskCall, inputs: readonly Tensor[]): Promise<Floats> {
  const { name, version } = task.model;
  const output = task.profile.output.name;
  const request = { id: '', model: name, version, inputs, outputs: [output], parameters: NO_PARAMETERS };
  const response = await task.infer(request, task.call);
  task.timings.inferred(response.timings);
  return floatsOf(response, output);
}
