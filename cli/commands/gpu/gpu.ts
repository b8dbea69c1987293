import type { Flag } from '../../flags/flag.ts';
import { GPU_COMMAND_FLAGS, GPU_FLAGS, type GpuCommandName, type GpuSettings } from '../../flags/gpu-catalogue.ts';
import { parseOptions } from '../../flags/parse-flags.ts';
import { createOutput } from '../output.ts';
import { unexpectedArgument, unknownSubCommand } from '../sub-command.ts';
import { GPU_COMMANDS, gpuCommandHelp, gpuHelp } from './help.ts';
import { PROBE_COMMAND } from './probe-steps.ts';

/**
 * `millrace gpu COMMAND …`. Sets the exit code: 0 when all is well, 1 when something is missing.
 * @throws InferError INVALID_ARGUMENT for a command line that is wrong, and what an installation cannot do without.
 */
export async function gpu(args: readonly string[]): Promise<void> {
  const [word, ...rest] = args;
  if (word === undefined || word === '--help' || word === '-h' || word === 'help') {
    process.stdout.write(gpuHelp());
    if (word === undefined) process.exitCode = 2;
    return;
  }
  if (word === PROBE_COMMAND) {
    const { probe } = await import('./probe.ts');
    await probe(rest[0] ?? '');
    return;
  }
  if (!isCommand(word)) {
    throw unknownSubCommand('gpu', word, Object.keys(GPU_COMMANDS));
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(gpuCommandHelp(word));
    return;
  }
  if (word === 'install') {
    const settings = parse(word, rest);
    const { install } = await import('./install.ts');
    await install(settings);
    return;
  }
  const settings = parse(word, rest);
  const { check } = await import('./check.ts');
  process.exitCode = await check(settings, createOutput(settings.json));
}

function isCommand(word: string): word is GpuCommandName {
  return Object.hasOwn(GPU_COMMANDS, word);
}

function parse<C extends GpuCommandName>(command: C, args: readonly string[]): GpuSettings<C> {
  const flags: Record<string, Flag> = {};
  for (const key of GPU_COMMAND_FLAGS[command]) flags[key] = GPU_FLAGS[key];
  const { values, positionals } = parseOptions(`gpu ${command}`, flags, args, process.env);
  if (positionals[0] !== undefined) throw unexpectedArgument(`gpu ${command}`, positionals[0]);
  return values as unknown as GpuSettings<C>; // built key by key from the catalogue that the type comes from
}
