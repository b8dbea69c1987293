import { InferError } from '../../../shared/errors.ts';
import type { Flag } from '../../flags/flag.ts';
import { parseOptions } from '../../flags/parse-flags.ts';
import { POOL_COMMAND_FLAGS, POOL_FLAGS, type PoolCommandName, type PoolSettings } from '../../flags/pool-catalogue.ts';
import { finish, unexpectedArgument, unknownSubCommand } from '../sub-command.ts';
import { POOL_COMMANDS, poolCommandHelp, poolHelp } from './help.ts';

/**
 * `millrace pool [COMMAND] …`, list where no command is given. Sets the exit code: 0 when it is done, 1 when the pool could
 * not be asked or does not do it.
 * @throws InferError INVALID_ARGUMENT for a command line that is wrong.
 */
export async function pool(args: readonly string[]): Promise<void> {
  const [word] = args;
  if (word === '--help' || word === '-h' || word === 'help') {
    process.stdout.write(poolHelp());
    return;
  }
  const isOption = word === undefined || word.startsWith('-');
  const command = isOption ? 'list' : word;
  const rest = isOption ? args : args.slice(1);
  if (!isCommand(command)) {
    throw unknownSubCommand('pool', command, Object.keys(POOL_COMMANDS));
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(poolCommandHelp(command));
    return;
  }
  await runCommand(command, rest);
}

function isCommand(word: string): word is PoolCommandName {
  return Object.hasOwn(POOL_COMMANDS, word);
}

async function runCommand(command: PoolCommandName, args: readonly string[]): Promise<void> {
  if (command === 'list') {
    const { settings, positionals } = parse(command, args);
    if (positionals[0] !== undefined) throw unexpectedArgument(`pool ${command}`, positionals[0]);
    const { listPool } = await import('./list.ts');
    await finish(settings.json, (output) => listPool(settings, output));
    return;
  }
  const { settings, positionals } = parse(command, args);
  const [name, second] = positionals;
  if (name === undefined) {
    const text = `millrace pool drain needs WORKER; usage: millrace pool drain ${POOL_COMMANDS.drain.usage}`;
    throw new InferError('INVALID_ARGUMENT', text);
  }
  if (second !== undefined) throw unexpectedArgument(`pool ${command}`, second);
  const { drainWorker } = await import('./drain.ts');
  await finish(settings.json, (output) => drainWorker(settings, name, output));
}

function parse<C extends PoolCommandName>(command: C, args: readonly string[]) {
  const flags: Record<string, Flag> = {};
  for (const key of POOL_COMMAND_FLAGS[command]) flags[key] = POOL_FLAGS[key];
  const { values, positionals } = parseOptions(`pool ${command}`, flags, args, process.env);
  const settings = values as unknown as PoolSettings<C>; // built key by key from the catalogue that the type comes from
  return { settings, positionals };
}
