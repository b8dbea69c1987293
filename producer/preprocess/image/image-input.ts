import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import { ModelInput_Format } from '../../../shared/proto/generated/model_config_pb.ts';

/** The input of a model that takes one picture per row. */
export interface ImageInput {
  readonly name: string;
  readonly datatype: 'FP32' | 'UINT8';
  readonly layout: 'NCHW' | 'NHWC';
  readonly channels: 1 | 3;
  /** -1 when the model takes any. */
  readonly height: number;
  readonly width: number;
  /** Whether a batch dimension stands in front of the picture's three. */
  readonly batched: boolean;
}

/** @throws InferError INVALID_ARGUMENT when the model does not take exactly one picture. */
export function imageInputOf(model: ReadyModel): ImageInput {
  const required = model.inputs.filter((input) => !input.optional);
  const [only] = required;
  const input = only && required.length === 1 ? readImageInput(model, only) : undefined;
  if (input) return input;
  const given = model.inputs.map(({ name, datatype, shape }) => `"${name}" ${datatype} [${shape.join(', ')}]`);
  throw new InferError(
    'INVALID_ARGUMENT',
    `model "${model.name}" must have one input for pictures, FP32 or UINT8 with 1 or 3 channels, and has ${given.join(', ')}`,
  );
}

/** undefined when the tensor cannot be a picture. */
function readImageInput(model: ReadyModel, { name, datatype, shape }: TensorSpec): ImageInput | undefined {
  if (datatype !== 'FP32' && datatype !== 'UINT8') return undefined;
  const batched = shape.length === 4;
  const dims = batched ? shape.slice(1) : shape;
  if (batched && model.maxBatchSize === 0 && shape[0] !== -1 && shape[0] !== 1) return undefined;
  const [a, b, c] = dims;
  if (a === undefined || b === undefined || c === undefined || dims.length !== 3) return undefined;
  const channelsFirst = channelsOf(a);
  const channelsLast = channelsOf(c);
  const format = model.config.input.find((input) => input.name === name)?.format;
  if (channelsLast && (!channelsFirst || format === ModelInput_Format.NHWC)) {
    return { name, datatype, layout: 'NHWC', channels: channelsLast, height: a, width: b, batched };
  }
  if (!channelsFirst) return undefined;
  return { name, datatype, layout: 'NCHW', channels: channelsFirst, height: b, width: c, batched };
}

function channelsOf(dim: number): 1 | 3 | undefined {
  return dim === 1 || dim === 3 ? dim : undefined;
}
