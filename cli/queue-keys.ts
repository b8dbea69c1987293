import { readFileSync } from 'node:fs';
import { InferError } from '../shared/errors.ts';
import { parseQueueKeys, QueueKeys } from '../shared/wire/queue-keys.ts';
import type { Settings } from './flags/catalogue.ts';

/** Undefined where nothing is signed. @throws InferError INVALID_ARGUMENT for a file that cannot be used */
export function queueKeysOf(
  settings: Pick<Settings<'worker'>, 'queueKeyFile' | 'queueAcceptUnsigned'>,
): QueueKeys | undefined {
  const { queueKeyFile: path, queueAcceptUnsigned } = settings;
  if (path === undefined) {
    if (!queueAcceptUnsigned) return undefined;
    throw new InferError('INVALID_ARGUMENT', '--queue-accept-unsigned goes with --queue-key-file');
  }
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    throw new InferError('INVALID_ARGUMENT', '--queue-key-file: the file cannot be read', { cause });
  }
  return new QueueKeys(parseQueueKeys(text), queueAcceptUnsigned);
}
