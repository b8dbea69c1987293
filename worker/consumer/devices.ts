import { availableParallelism, cpus } from 'node:os';
import type { WorkerDevice } from '../../shared/directory/worker-record.ts';

/** What this process runs models on. */
export function listDevices(): WorkerDevice[] {
  const name = cpus()[0]?.model.trim() ?? '';
  return [{ kind: 'cpu', name, count: availableParallelism() }];
}
