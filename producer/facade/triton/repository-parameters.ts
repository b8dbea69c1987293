import { InferError } from '../../../shared/errors.ts';
import type { ModelControl, ModelOverride } from '../../../shared/infer/ports.ts';
import { shownText } from '../../../shared/tensor/text.ts';

/** A parameter of a load or an unload as a protocol gives it: a text, bytes, a switch, or of no use at all. */
export type RepositoryParameter =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'other' };

export type RepositoryParameters = ReadonlyMap<string, RepositoryParameter>;

/**
 * Does what a load or an unload asks for. Names are looked up nowhere before they are checked, so one that could be a path
 * ends here.
 * @throws InferError INVALID_ARGUMENT; UNIMPLEMENTED for a repository that is named; what `ModelControl` throws
 */
export async function controlModel(
  control: ModelControl,
  action: 'load' | 'unload',
  target: { readonly repository: string; readonly model: string },
  parameters: RepositoryParameters,
): Promise<void> {
  const { repository, model } = target;
  assertNoRepositoryName(repository);
  assertModelName(model);
  if (action === 'load') await control.load(model, overrideOf(model, parameters));
  else await control.unload(model, dependentsToo(model, parameters));
}

/** @throws InferError UNIMPLEMENTED when a repository is named */
export function assertNoRepositoryName(repository: string): void {
  if (repository === '') return;
  throw new InferError('UNIMPLEMENTED', 'a repository cannot be chosen by its name');
}

/** @throws InferError INVALID_ARGUMENT for a name that is empty or could be a path */
export function assertModelName(model: string): void {
  if (model === '') throw invalid('the name of the model is empty');
  if (model === '.' || model === '..' || /[/\\\0]/.test(model)) {
    throw invalid(`a model's name is not a path, got ${shownText(JSON.stringify(model))}`);
  }
}

function overrideOf(model: string, parameters: RepositoryParameters): ModelOverride {
  let config: string | undefined;
  const files = new Map<string, Uint8Array>();
  for (const [name, parameter] of parameters) {
    if (name === 'config') {
      if (parameter.kind !== 'text') throw invalid(`load of ${shownText(model)}: config must be a text of JSON`);
      config = parameter.text;
    } else if (!name.startsWith('file:')) {
      throw invalid(
        `load of ${shownText(model)}: unknown parameter ${shownText(name)}, expected config or file:<path>`,
      );
    } else if (parameter.kind !== 'bytes') {
      throw invalid(`load of ${shownText(model)}: ${shownText(name)} must be the bytes of a file`);
    } else files.set(name.slice('file:'.length), parameter.bytes);
  }
  if (files.size > 0 && config === undefined) {
    throw invalid(`load of ${shownText(model)}: files need the parameter config beside them`);
  }
  return { ...(config !== undefined && { config }), ...(files.size > 0 && { files }) };
}

function dependentsToo(model: string, parameters: RepositoryParameters): boolean {
  let dependents = false;
  for (const [name, parameter] of parameters) {
    if (name !== 'unload_dependents') {
      throw invalid(`unload of ${shownText(model)}: unknown parameter ${shownText(name)}, expected unload_dependents`);
    }
    if (parameter.kind !== 'boolean') {
      throw invalid(`unload of ${shownText(model)}: unload_dependents must be true or false`);
    }
    dependents = parameter.value;
  }
  return dependents;
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
