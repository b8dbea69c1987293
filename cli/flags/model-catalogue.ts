import { DEFAULT_TOLERANCE } from '../../shared/traffic/traffic-rule.ts';
import { FLAGS, type ValueOf } from './catalogue.ts';
import type { Flag } from './flag.ts';

/** Every option of `millrace model …`. One row here is also a row of docs/model-command.md (checked by a test). */
export const MODEL_FLAGS = {
  modelRepository: FLAGS.modelRepository,
  modelConfigName: FLAGS.modelConfigName,
  onnxruntimeApi: FLAGS.onnxruntimeApi,
  gpuDir: FLAGS.gpuDir,
  targetRepository: {
    name: 'model-repository',
    type: 'string',
    value: 'DIR',
    default: 'models',
    commandLineOnly: true,
    help: 'folder of model folders to write into; made when it is not there',
  },
  noRun: {
    name: 'no-run',
    type: 'boolean',
    value: 'BOOL',
    default: false,
    commandLineOnly: true,
    help: 'open the model file and compare, but run nothing: no self-test, no warm-up, no ensembles’ steps',
  },
  name: {
    name: 'name',
    type: 'string',
    value: 'NAME',
    default: undefined,
    commandLineOnly: true,
    help: 'name of the model; unless given, that of the folder or file',
  },
  link: {
    name: 'link',
    type: 'boolean',
    value: 'BOOL',
    default: false,
    commandLineOnly: true,
    help: 'hard-link the model file and its external data instead of copying them',
  },
  config: {
    name: 'config',
    type: 'string',
    value: 'FILE',
    default: undefined,
    commandLineOnly: true,
    help: 'a config.pbtxt, or its JSON, that takes the place of the one in the repository',
  },
  unloadDependents: {
    name: 'unload-dependents',
    type: 'boolean',
    value: 'BOOL',
    default: false,
    commandLineOnly: true,
    help: 'of an ensemble: unload the models of its steps too',
  },
  sticky: {
    name: 'sticky',
    type: 'string',
    value: 'NAME',
    default: '',
    commandLineOnly: true,
    help: 'request parameter whose value decides, so that equal values get the same version',
  },
  shadow: {
    name: 'shadow',
    type: 'string',
    value: 'VERSION',
    default: undefined,
    commandLineOnly: true,
    help: 'version that gets copies of requests, whose answers are compared and thrown away; 2=10% for a part of them',
  },
  tolerance: {
    name: 'tolerance',
    type: 'string',
    value: 'NUMBER',
    default: String(DEFAULT_TOLERANCE),
    commandLineOnly: true,
    help: 'up to which the numbers of a copy’s answer count as equal, relative where they are above 1',
  },
  fallback: {
    name: 'fallback',
    type: 'boolean',
    value: 'BOOL',
    default: false,
    commandLineOnly: true,
    help: 'take the share of the newest version away when it fails more than the others',
  },
  clear: {
    name: 'clear',
    type: 'boolean',
    value: 'BOOL',
    default: false,
    commandLineOnly: true,
    help: 'back to the rule of the config, or to the version policy',
  },
  url: {
    name: 'url',
    type: 'string',
    value: 'URL',
    default: 'http://localhost:8000',
    help: 'HTTP address of the running server',
  },
  header: {
    name: 'header',
    type: 'string',
    repeatable: true,
    separator: '\n',
    value: 'NAME=VALUE',
    default: undefined,
    help: 'header to send, for servers with --http-restricted-api; may be given several times (environment: one a line)',
  },
  timeoutSecs: {
    name: 'timeout-secs',
    type: 'integer',
    value: 'SECONDS',
    min: 1,
    max: 86_400,
    default: 300,
    commandLineOnly: true,
    help: 'longest time to wait for the server’s answer',
  },
  json: {
    name: 'json',
    type: 'boolean',
    value: 'BOOL',
    default: false,
    commandLineOnly: true,
    help: 'print JSON instead of text',
  },
} as const satisfies Record<string, Flag>;

type ModelFlagKey = keyof typeof MODEL_FLAGS;

const SERVER = ['url', 'header', 'timeoutSecs', 'json'] as const;

/** Which options each command takes, in the order of its `--help`. */
export const MODEL_COMMAND_FLAGS = {
  check: ['modelRepository', 'modelConfigName', 'noRun', 'onnxruntimeApi', 'gpuDir', 'json'],
  explain: ['modelRepository', 'modelConfigName', 'onnxruntimeApi', 'gpuDir', 'json'],
  init: ['name', 'targetRepository', 'link', 'json'],
  list: [...SERVER],
  load: ['config', ...SERVER],
  traffic: ['sticky', 'shadow', 'tolerance', 'fallback', 'clear', ...SERVER],
  unload: ['unloadDependents', ...SERVER],
} as const satisfies Record<string, readonly ModelFlagKey[]>;

export type ModelCommandName = keyof typeof MODEL_COMMAND_FLAGS;

/** The parsed options of a command: every key is there, defaults filled in. */
export type ModelSettings<C extends ModelCommandName> = {
  readonly [K in (typeof MODEL_COMMAND_FLAGS)[C][number]]: ValueOf<(typeof MODEL_FLAGS)[K]>;
};
