import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import { shownText } from '../../../shared/tensor/text.ts';

/** @throws InferError NOT_FOUND unless the model is known, ready or not */
export function assertKnownModel(catalog: ModelCatalog, name: string): void {
  if (catalog.list().some((state) => state.name === name)) return;
  throw new InferError('NOT_FOUND', `Request for unknown model: '${shownText(name)}' is not found`);
}
