import { writeFile } from 'node:fs/promises';
import { Millrace, MillraceError, type ModelIndexEntry } from '../../../client/client.ts';
import { InferError } from '../../../shared/errors.ts';
import type { Flag } from '../../flags/flag.ts';
import { MODEL_FLAGS } from '../../flags/model-catalogue.ts';
import { parseOptions } from '../../flags/parse-flags.ts';
import { optionLines } from '../../help.ts';
import { parseHeaders } from '../server-client.ts';
import { type TypedModel, writeTypes } from './write-types.ts';

const OUT: Flag = {
  name: 'out',
  type: 'string',
  value: 'FILE',
  default: undefined,
  commandLineOnly: true,
  help: 'where to write; unless given, the text goes to the standard output',
};

const FLAGS: Record<string, Flag> = {
  out: OUT,
  url: MODEL_FLAGS.url,
  header: MODEL_FLAGS.header,
  timeoutSecs: MODEL_FLAGS.timeoutSecs,
};

interface Settings {
  readonly out: string | undefined;
  readonly url: string;
  readonly header: readonly string[];
  readonly timeoutSecs: number;
}

/**
 * `millrace codegen [MODEL…]`: TypeScript types of the models of a running server.
 * @throws InferError INVALID_ARGUMENT for a command line that is wrong, UNAVAILABLE with what the server said
 */
export async function codegen(args: readonly string[]): Promise<void> {
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(help());
    return;
  }
  const { values, positionals } = parseOptions('codegen', FLAGS, args, process.env);
  const settings = values as unknown as Settings; // built key by key from FLAGS
  try {
    const text = writeTypes(await readModels(settings, positionals));
    if (settings.out === undefined) process.stdout.write(text);
    else await writeFile(settings.out, text);
  } catch (error) {
    if (error instanceof MillraceError) throw new InferError('UNAVAILABLE', error.message, { cause: error });
    const reason = error instanceof Error ? error.message : String(error);
    throw InferError.from(error, `the types could not be written: ${reason}`);
  }
}

function help(): string {
  const usage = 'usage: millrace codegen [MODEL…] [--out=FILE] [--url=URL]';
  const what = 'write TypeScript types of the models of a running server, for millrace/client';
  return [usage, '', `  ${what}`, '', 'options:', ...optionLines(Object.values(FLAGS)), ''].join('\n');
}

async function readModels({ url, header, timeoutSecs }: Settings, names: readonly string[]): Promise<TypedModel[]> {
  const headers = Object.fromEntries(parseHeaders(header));
  const client = new Millrace({ url, headers, timeoutMs: timeoutSecs * 1000 });
  const wanted = names.length > 0 ? names : readyNames(await client.models());
  if (wanted.length === 0) throw new InferError('NOT_FOUND', `no model is ready at ${url}`);
  const models: TypedModel[] = [];
  for (const name of wanted) {
    const { inputs, outputs } = await client.metadata(name);
    const optional = await client.optionalInputs(name);
    models.push({
      name,
      inputs: inputs.map((tensor) => ({ ...tensor, optional: optional.includes(tensor.name) })),
      outputs: outputs.map((tensor) => ({ ...tensor, optional: false })),
    });
  }
  return models;
}

function readyNames(index: readonly ModelIndexEntry[]): string[] {
  const ready = index.filter(({ state }) => state === 'READY').map(({ name }) => name);
  return [...new Set(ready)].sort();
}
