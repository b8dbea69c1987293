import type { ModelCatalog } from '../../shared/infer/ports.ts';
import { sequenceIdleMs } from '../../shared/model/sequence-routing.ts';
import type { ModelConfig } from '../../shared/proto/generated/model_config_pb.ts';
import { queueName } from '../../shared/wire/names.ts';

export interface QueueOf {
  readonly model: string;
  /** '' for all. */
  readonly version: string;
  /** It is the worker's alone. */
  readonly own: boolean;
}

/**
 * The queues that a worker takes from, by name: one for each model with a ready version, one for each ready version whose
 * queue is in use, and one for what is sent to this worker alone, which are requests of the sequences that it holds.
 */
export function queuesToTake(
  catalog: ModelCatalog,
  workerId: string,
  versionQueues: ReadonlySet<string>,
): Map<string, QueueOf> {
  const queues = new Map<string, QueueOf>();
  for (const { name: model, version = '', state } of catalog.list()) {
    if (state !== 'READY') continue;
    queues.set(queueName(model), { model, version: '', own: false });
    const ofVersion = queueName(model, version);
    if (versionQueues.has(ofVersion)) queues.set(ofVersion, { model, version, own: false });
    if (takesSequences(catalog, model, version)) {
      queues.set(queueName(model, '', workerId), { model, version: '', own: true });
    }
  }
  return queues;
}

function takesSequences(catalog: ModelCatalog, model: string, version: string): boolean {
  const find = (name: string, of: string): ModelConfig | undefined => {
    try {
      return catalog.resolve(name, of).config;
    } catch {
      return undefined; // not ready, which its ensemble says itself
    }
  };
  return sequenceIdleMs(catalog.resolve(model, version).config, find) !== undefined;
}
