import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog, ModelState } from '../../../shared/infer/ports.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { shownText } from '../../../shared/tensor/text.ts';

/** @throws InferError NOT_FOUND unless the model is known, ready or not */
export function assertKnownModel(catalog: ModelCatalog, name: string): void {
  if (catalog.list().some((state) => state.name === name)) return;
  throw new InferError('NOT_FOUND', `Request for unknown model: '${shownText(name)}' is not found`);
}

/** A model that can be called is not always ready: behind the queue it may be waiting for its first worker. */
export function stateOf(catalog: ModelCatalog, { name, version }: ReadyModel): ModelState {
  const found = catalog.list().find((state) => state.name === name && state.version === version);
  return found ?? { name, version, state: 'READY', reason: '' };
}
