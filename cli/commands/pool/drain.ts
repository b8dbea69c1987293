import { setTimeout as sleep } from 'node:timers/promises';
import { InferError } from '../../../shared/errors.ts';
import type { PoolSettings } from '../../flags/pool-catalogue.ts';
import type { Output } from '../output.ts';
import { createServerClient } from '../server-client.ts';

const LOOK_MS = 300;

/** `millrace pool drain`: asks the worker to leave and, unless told otherwise, waits until it has. */
export async function drainWorker(settings: PoolSettings<'drain'>, worker: string, output: Output): Promise<number> {
  const client = createServerClient(settings);
  const { id, name } = await client.drain(worker);
  if (settings.wait) {
    if (!output.json) output.line(`${name} is draining`);
    const endMs = performance.now() + settings.timeoutSecs * 1000;
    while ((await client.pool()).workers.some((each) => each.id === id)) {
      if (performance.now() > endMs) {
        const text = `${name} has not left within ${settings.timeoutSecs} s (--timeout-secs); it goes on draining`;
        throw new InferError('UNAVAILABLE', text);
      }
      await sleep(LOOK_MS);
    }
  }
  const state = settings.wait ? 'left' : 'draining';
  if (output.json) output.value({ ok: true, id, name, state });
  else output.line(settings.wait ? `${name} has left` : `${name} is draining`);
  return 0;
}
