import { randomBytes } from 'node:crypto';
import { sha256Hex } from '../../shared/sha256.ts';
import { parseOptions } from '../flags/parse-flags.ts';
import type { Flag } from '../flags/flag.ts';
import { optionLines } from '../help.ts';

const KEY_BYTES = 24;

const FLAGS = {
  name: {
    name: 'name',
    type: 'string',
    value: 'TENANT',
    default: 'my-tenant',
    commandLineOnly: true,
    help: 'the tenant that the key is for, in the entry that is printed',
  },
} as const satisfies Record<string, Flag>;

/** `millrace api-key`: makes a key and prints it, with its hash as an entry of the keys file. Nothing is kept of it. */
export function apiKey(args: readonly string[]): void {
  if (args.includes('--help') || args.includes('-h')) {
    const lines = ['usage: millrace api-key [--name=TENANT]', '', '  make a key for --api-keys-file', '', 'options:'];
    process.stdout.write([...lines, ...optionLines(Object.values(FLAGS)), ''].join('\n'));
    return;
  }
  const { values } = parseOptions('api-key', FLAGS, args, process.env);
  const key = `mr_${randomBytes(KEY_BYTES).toString('base64url')}`;
  const hash = sha256Hex(key);
  const entry = JSON.stringify({ name: String(values.name), key_sha256: [hash] });
  const lines = [
    `key      ${key}`,
    `sha256   ${hash}`,
    '',
    'The key is for the client, and is shown this once. In the file of --api-keys-file stands its hash:',
    `  {"tenants": [${entry}]}`,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}
