import type { ValueOf } from './catalogue.ts';
import type { Flag } from './flag.ts';
import { MODEL_FLAGS } from './model-catalogue.ts';

/** Every option of `millrace pool …`. One row here is also a row of docs/pool.md (checked by a test). */
export const POOL_FLAGS = {
  url: { ...MODEL_FLAGS.url, help: 'HTTP address of a running producer' },
  header: MODEL_FLAGS.header,
  wait: {
    name: 'wait',
    type: 'boolean',
    value: 'BOOL',
    default: true,
    commandLineOnly: true,
    help: 'whether to return only when the worker has left',
  },
  timeoutSecs: { ...MODEL_FLAGS.timeoutSecs, help: 'longest time to wait for the answer, or for the worker to leave' },
  json: MODEL_FLAGS.json,
} as const satisfies Record<string, Flag>;

type PoolFlagKey = keyof typeof POOL_FLAGS;

/** Which options each command takes, in the order of its `--help`. */
export const POOL_COMMAND_FLAGS = {
  list: ['url', 'header', 'timeoutSecs', 'json'],
  drain: ['url', 'header', 'wait', 'timeoutSecs', 'json'],
} as const satisfies Record<string, readonly PoolFlagKey[]>;

export type PoolCommandName = keyof typeof POOL_COMMAND_FLAGS;

/** The parsed options of a command: every key is there, defaults filled in. */
export type PoolSettings<C extends PoolCommandName> = {
  readonly [K in (typeof POOL_COMMAND_FLAGS)[C][number]]: ValueOf<(typeof POOL_FLAGS)[K]>;
};
