import type { ModelSettings } from '../../flags/model-catalogue.ts';
import { printIndex } from './index-table.ts';
import type { Output } from '../output.ts';
import { createServerClient } from '../server-client.ts';

/** `millrace model unload`: unloads a model of a running server, and shows what became of it. */
export async function unload(settings: ModelSettings<'unload'>, name: string, output: Output): Promise<number> {
  const client = createServerClient(settings);
  await client.unload(name, settings.unloadDependents);
  const versions = (await client.index()).filter((row) => row.name === name);
  if (output.json) output.value({ ok: true, model: name, versions });
  else if (versions.length === 0) output.line(`${name} is not in the repository`);
  else printIndex(versions, output);
  return 0;
}
