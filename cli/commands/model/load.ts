import { readFile } from 'node:fs/promises';
import { InferError } from '../../../shared/errors.ts';
import { encodeModelConfigJson } from '../../../shared/model/config-json.ts';
import { parseModelConfig } from '../../../shared/model/parse-config.ts';
import type { ModelSettings } from '../../flags/model-catalogue.ts';
import { printIndex } from './index-table.ts';
import type { Output } from '../output.ts';
import { createServerClient } from '../server-client.ts';

/** `millrace model load`: loads or reloads a model of a running server, and shows what became of it. */
export async function load(settings: ModelSettings<'load'>, name: string, output: Output): Promise<number> {
  const config = settings.config === undefined ? undefined : await readConfigOverride(settings.config);
  const client = createServerClient(settings);
  await client.load(name, config);
  const versions = (await client.index()).filter((row) => row.name === name);
  if (output.json) output.value({ ok: true, model: name, versions });
  else printIndex(versions, output);
  return 0;
}

/** The server takes JSON; a config.pbtxt becomes some. */
async function readConfigOverride(file: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new InferError('NOT_FOUND', `--config: ${file} cannot be read`, { cause: error });
  }
  if (text.trimStart().startsWith('{')) return text;
  return encodeModelConfigJson(parseModelConfig(text, file));
}
