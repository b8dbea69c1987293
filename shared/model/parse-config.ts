import { fromText } from '@bufbuild/protobuf/txtpb';
import { InferError } from '../errors.ts';
import { type ModelConfig, ModelConfigSchema } from '../proto/generated/model_config_pb.ts';
import { locateConfigError } from './config-error-position.ts';
import { explainConfigError } from './explain-config-error.ts';

/**
 * Reads the text of a config.pbtxt. Nothing is completed or checked beyond the text format itself.
 * @throws InferError INVALID_ARGUMENT with `fileName:line:column: what`, counted from 1.
 */
export function parseModelConfig(text: string, fileName: string): ModelConfig {
  const body = text.startsWith('\uFEFF') ? text.slice(1) : text;
  try {
    return fromText(ModelConfigSchema, body);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const place = locateConfigError(body, problemOf);
    const what = explainConfigError(message, place);
    throw new InferError('INVALID_ARGUMENT', `${fileName}:${place.line}:${place.column}: ${what}`, { cause: error });
  }
}

/** What is wrong with a text, undefined when nothing is. */
export function problemOf(text: string): string | undefined {
  try {
    fromText(ModelConfigSchema, text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
