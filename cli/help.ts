import { COMMAND_FLAGS, FLAGS, type CommandName } from './flags/catalogue.ts';
import { environmentName, type Flag } from './flags/flag.ts';

export const COMMANDS: Readonly<Record<CommandName, string>> = {
  serve: 'HTTP API and models in one process; needs no Redis',
  producer: 'HTTP API; requests travel through Redis to the workers',
  worker: 'models; takes requests from Redis. Start as many as wanted',
};

/** What `millrace --help` prints. */
export function generalHelp(): string {
  const rows = Object.entries(COMMANDS).map(([name, help]) => `  ${name.padEnd(10)} ${help}`);
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
  for (const key of COMMAND_FLAGS[command]) {
    const flag: Flag = FLAGS[key];
    lines.push(`  --${flag.name}=${flag.value}`, `      ${describe(flag)}`);
  }
  lines.push('', 'A command line option wins over its environment variable.', '');
  return lines.join('\n');
}

function describe(flag: Flag): string {
  const choices = flag.choices ? `; one of ${flag.choices.join(', ')}` : '';
  const preset = flag.default === undefined ? '' : `; default ${String(flag.default)}`;
  const variables = [environmentName(flag), ...(flag.env === undefined ? [] : [flag.env])].join(' or ');
  return `${flag.help}${choices}${preset} [${variables}]`;
}
