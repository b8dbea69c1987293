import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { InferError } from '../errors.ts';
import { type ModelConfig, ModelConfigSchema } from '../proto/generated/model_config_pb.ts';

/** A config in protobuf's binary form, for the directory of models. */
export function encodeModelConfig(config: ModelConfig): Uint8Array {
  return toBinary(ModelConfigSchema, config);
}

/** @throws InferError INVALID_ARGUMENT for bytes that are no config. */
export function decodeModelConfig(bytes: Uint8Array): ModelConfig {
  try {
    return fromBinary(ModelConfigSchema, bytes);
  } catch (error) {
    const given = `${bytes.byteLength} bytes that are none`;
    throw new InferError('INVALID_ARGUMENT', `expected an encoded model config, got ${given}`, { cause: error });
  }
}
