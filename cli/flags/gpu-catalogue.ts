import { FLAGS, type ValueOf } from './catalogue.ts';
import type { Flag } from './flag.ts';
import { MODEL_FLAGS } from './model-catalogue.ts';

const SWITCH = { type: 'boolean', value: 'BOOL', default: false, commandLineOnly: true } as const;

/** Every option of `millrace gpu …`. One row here is also a row of docs/gpu.md (checked by a test). */
export const GPU_FLAGS = {
  gpuDir: {
    ...FLAGS.gpuDir,
    aliases: ['dir'],
    help: 'the folder; default millrace/gpu in the data folder of the user',
  },
  yes: { ...SWITCH, name: 'yes', help: 'begin without asking' },
  dryRun: { ...SWITCH, name: 'dry-run', help: 'say what would be fetched, and fetch nothing' },
  from: {
    name: 'from',
    type: 'string',
    value: 'DIR',
    default: undefined,
    commandLineOnly: true,
    help: 'folder with the wheels, for a machine without a network',
  },
  providerOnly: {
    ...SWITCH,
    name: 'provider-only',
    help: 'the provider alone, where NVIDIA’s libraries are on the loader’s search path already',
  },
  json: MODEL_FLAGS.json,
} as const satisfies Record<string, Flag>;

type GpuFlagKey = keyof typeof GPU_FLAGS;

/** Which options each command takes, in the order of its `--help`. */
export const GPU_COMMAND_FLAGS = {
  install: ['gpuDir', 'yes', 'dryRun', 'from', 'providerOnly'],
  check: ['gpuDir', 'json'],
} as const satisfies Record<string, readonly GpuFlagKey[]>;

export type GpuCommandName = keyof typeof GPU_COMMAND_FLAGS;

/** The parsed options of a command: every key is there, defaults filled in. */
export type GpuSettings<C extends GpuCommandName> = {
  readonly [K in (typeof GPU_COMMAND_FLAGS)[C][number]]: ValueOf<(typeof GPU_FLAGS)[K]>;
};
