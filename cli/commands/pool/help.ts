import { POOL_COMMAND_FLAGS, POOL_FLAGS, type PoolCommandName } from '../../flags/pool-catalogue.ts';
import { optionLines } from '../../help.ts';

export const POOL_COMMANDS: Readonly<Record<PoolCommandName, { readonly usage: string; readonly help: string }>> = {
  list: {
    usage: '[--url=URL]',
    help: 'the workers of a pool with their models and speed, what waits, and how many workers there should be',
  },
  drain: {
    usage: 'WORKER [--url=URL]',
    help: 'have a worker finish what it has and leave; WORKER is its id, host:pid, or its host where it is alone there',
  },
};

/** What `millrace pool --help` prints. */
export function poolHelp(): string {
  const rows = Object.entries(POOL_COMMANDS).map(([name, { help }]) => `  ${name.padEnd(10)} ${help}`);
  return [
    'usage: millrace pool [COMMAND] …',
    '',
    'commands (list unless given):',
    ...rows,
    '',
    'millrace pool COMMAND --help   the options of a command',
    '',
  ].join('\n');
}

/** What `millrace pool COMMAND --help` prints. */
export function poolCommandHelp(command: PoolCommandName): string {
  const { usage, help } = POOL_COMMANDS[command];
  const flags = POOL_COMMAND_FLAGS[command].map((key) => POOL_FLAGS[key]);
  return [`usage: millrace pool ${command} ${usage}`, '', `  ${help}`, '', 'options:', ...optionLines(flags), ''].join(
    '\n',
  );
}
