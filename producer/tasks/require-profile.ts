import { InferError } from '../../shared/errors.ts';
import type { ReadyModel } from '../../shared/model/ready-model.ts';
import type { ModelProfile } from '../preprocess/model-profile.ts';
import type { Preprocessor } from '../preprocess/preprocessor.ts';

/** The profile of a model that takes photos, texts or files. @throws InferError INVALID_ARGUMENT for any other */
export async function requireProfile(preprocessor: Preprocessor, model: ReadyModel): Promise<ModelProfile> {
  const profile = await preprocessor.profile(model);
  if (profile) return profile;
  throw new InferError(
    'INVALID_ARGUMENT',
    `model "${model.name}" has no files that describe its input (preprocessor_config.json with a picture input, ` +
      `tokenizer.json with input_ids, or magika_config.json); send tensors to /v2/models/${model.name}/infer`,
  );
}
