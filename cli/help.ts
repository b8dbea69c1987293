import { COMMAND_FLAGS, FLAGS, type CommandName } from './flags/catalogue.ts';
import { environmentName, type Flag } from './flags/flag.ts';

export const COMMANDS: Readonly<Record<CommandName, string>> = {
  serve: 'HTTP API and models in one process; needs no Redis',
  producer: 'HTTP API; requests travel through Redis to the workers',
  worker: 'models; takes requests from Redis. Start as many as wanted',
};

/** Those that serve nothing themselves, each with options of its own. */
export const TOOLS = {
  model: 'check, explain, write, load and unload models',
  pool: 'the workers of a pool: list and drain them',
  gpu: 'install what models on NVIDIA GPUs need, and check it',
  codegen: 'write TypeScript types of the models of a running server',
  'api-key': 'make a key for --api-keys-file',
} as const;

export type ToolName = keyof typeof TOOLS;

/** What `millrace --help` prints. */
export function generalHelp(): string {
  const rows = Object.entries({ ...COMMANDS, ...TOOLS }).map(([name, help]) => `  ${name.padEnd(10)} ${help}`);
  return [
    'millrace: inference worker pool with Triton’s protocol in front and a queue in the middle',
    '',
    'usage: millrace COMMAND [--option=value …]',
    '',
    'commands:',
    ...rows,
    '',
    'millrace COMMAND --help   the options of a command',
    'millrace --version        the version',
    '',
  ].join('\n');
}

/** What `millrace COMMAND --help` prints: every option with its unit, default and environment variable. */
export function commandHelp(command: CommandName): string {
  const lines = [`usage: millrace ${command} [--option=value …]`, '', `  ${COMMANDS[command]}`, '', 'options:'];
  lines.push(...optionLines(COMMAND_FLAGS[command].map((key) => FLAGS[key])));
  lines.push('', 'A command line option wins over its environment variable.', '');
  return lines.join('\n');
}

/** Two lines for each option. */
export function optionLines(flags: readonly Flag[]): string[] {
  return flags.flatMap((flag) => [`  --${flag.name}=${flag.value}`, `      ${describe(flag)}`]);
}

function describe(flag: Flag): string {
  const choices = flag.choices ? `; one of ${flag.choices.join(', ')}` : '';
  const preset = flag.default === undefined ? '' : `; default ${String(flag.default)}`;
  const variables = [environmentName(flag), ...(flag.env === undefined ? [] : [flag.env])].join(' or ');
  return `${flag.help}${choices}${preset}${flag.commandLineOnly ? '' : ` [${variables}]`}`;
}
