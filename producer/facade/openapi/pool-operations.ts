import { json, type Operation, ref } from './operation.ts';

/** The workers behind this server; where there is no queue, this process is the only one. */
export const POOL_OPERATIONS: readonly Operation[] = [
  {
    method: 'get',
    path: '/pool',
    id: 'pool',
    tag: 'Pool',
    summary: 'The workers, what waits for them, and how many there should be',
    answer: json(ref('Pool')),
  },
  {
    method: 'post',
    path: '/pool/workers/{name}/drain',
    id: 'drainWorker',
    tag: 'Pool',
    summary: 'Have a worker finish what it has and leave',
    answer: json(ref('DrainedWorker')),
  },
];
