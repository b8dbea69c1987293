import { InferError } from '../../../shared/errors.ts';
import { shownText } from '../../../shared/tensor/text.ts';

/** A parameter of a load or an unload as a protocol gives it: a text, bytes, a switch, or of no use at all. */
export type RepositoryParameter =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'other' };

export type RepositoryParameters = ReadonlyMap<string, RepositoryParameter>;

/**
 * Checks what can be checked of a load or unload without the repository. Names are looked up nowhere, so a name that could
 * be a path ends here.
 * @throws InferError INVALID_ARGUMENT; UNIMPLEMENTED for a repository that is named
 */
export function assertModelControl(
  action: 'load' | 'unload',
  repository: string,
  model: string,
  parameters: RepositoryParameters,
): void {
  assertNoRepositoryName(repository);
  assertModelName(model);
  if (action === 'load') assertLoadParameters(model, parameters);
  else assertUnloadParameters(model, parameters);
}

/** @throws InferError UNIMPLEMENTED when a repository is named */
export function assertNoRepositoryName(repository: string): void {
  if (repository === '') return;
  throw new InferError('UNIMPLEMENTED', 'a repository cannot be chosen by its name');
}

/** What every load and unload is answered in this control mode. */
export function explicitControlOff(model: string, action: 'load' | 'unload'): InferError {
  return new InferError(
    'UNAVAILABLE',
    `failed to ${action} '${shownText(model)}': explicit model load / unload is not allowed; models are loaded at start`,
  );
}

function assertModelName(model: string): void {
  if (model === '') throw invalid('the name of the model is empty');
  if (model === '.' || model === '..' || /[/\\\0]/.test(model)) {
    throw invalid(`a model's name is not a path, got ${shownText(JSON.stringify(model))}`);
  }
}

function assertLoadParameters(model: string, parameters: RepositoryParameters): void {
  for (const [name, parameter] of parameters) {
    if (name === 'config') {
      if (parameter.kind !== 'text') throw invalid(`load of ${shownText(model)}: config must be a text of JSON`);
    } else if (!name.startsWith('file:')) {
      throw invalid(
        `load of ${shownText(model)}: unknown parameter ${shownText(name)}, expected config or file:<path>`,
      );
    } else if (parameter.kind !== 'bytes') {
      throw invalid(`load of ${shownText(model)}: ${shownText(name)} must be the bytes of a file`);
    } else if (!parameters.has('config')) {
      throw invalid(`load of ${shownText(model)}: files need the parameter config beside them`);
    }
  }
}

function assertUnloadParameters(model: string, parameters: RepositoryParameters): void {
  for (const [name, parameter] of parameters) {
    if (name !== 'unload_dependents') {
      throw invalid(`unload of ${shownText(model)}: unknown parameter ${shownText(name)}, expected unload_dependents`);
    }
    if (parameter.kind !== 'boolean') {
      throw invalid(`unload of ${shownText(model)}: unload_dependents must be true or false`);
    }
  }
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
