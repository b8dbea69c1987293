import type { ModelSettings } from '../../flags/model-catalogue.ts';
import { printIndex } from './index-table.ts';
import type { Output } from '../output.ts';
import { createServerClient } from '../server-client.ts';

/** `millrace model list`: the models of a running server, with their states and reasons. */
export async function list(settings: ModelSettings<'list'>, output: Output): Promise<number> {
  const models = await createServerClient(settings).index();
  if (output.json) output.value({ models });
  else if (models.length === 0) output.line(`${settings.url} has no models`);
  else printIndex(models, output);
  return 0;
}
