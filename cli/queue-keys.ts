import { InferError } from '../shared/errors.ts';
import { FollowedFile } from '../shared/runtime/followed-file.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { parseQueueKeys, QueueKeys } from '../shared/wire/queue-keys.ts';
import type { Settings } from './flags/catalogue.ts';

/**
 * The keys of `--queue-key-file`, which is read again when it changes for as long as the process lives. Undefined where
 * nothing is signed.
 * @throws InferError INVALID_ARGUMENT for a file that cannot be used
 */
export function queueKeysOf(
  settings: Pick<Settings<'worker'>, 'queueKeyFile' | 'queueAcceptUnsigned'>,
  logger: Logger,
): QueueKeys | undefined {
  const { queueKeyFile: path, queueAcceptUnsigned } = settings;
  if (path === undefined) {
    if (!queueAcceptUnsigned) return undefined;
    throw new InferError('INVALID_ARGUMENT', '--queue-accept-unsigned goes with --queue-key-file');
  }
  const options = { path, flag: '--queue-key-file', what: 'queue keys', parse: parseQueueKeys };
  let keys: QueueKeys | undefined;
  const file = new FollowedFile(options, (found) => {
    if (keys) keys.replace(found);
    else keys = new QueueKeys(found, queueAcceptUnsigned);
  });
  file.start(logger);
  return keys;
}
