import { InferError } from '../../../shared/errors.ts';
import type { Flag } from '../../flags/flag.ts';
import {
  MODEL_COMMAND_FLAGS,
  MODEL_FLAGS,
  type ModelCommandName,
  type ModelSettings,
} from '../../flags/model-catalogue.ts';
import { parseOptions } from '../../flags/parse-flags.ts';
import { findGpuFolder } from '../../gpu-dir.ts';
import { relaunchWithEnvironment } from '../../launch.ts';
import { MODEL_COMMANDS, modelCommandHelp, modelHelp } from './help.ts';
import { finish, unexpectedArgument, unknownSubCommand } from '../sub-command.ts';

/**
 * `millrace model COMMAND …`. Sets the exit code: 0 when all is well, 1 when something is wrong with a model or the server.
 * @throws InferError INVALID_ARGUMENT for a command line that is wrong.
 */
export async function model(args: readonly string[]): Promise<void> {
  const [word, ...rest] = args;
  if (word === undefined || word === '--help' || word === '-h' || word === 'help') {
    process.stdout.write(modelHelp());
    if (word === undefined) process.exitCode = 2;
    return;
  }
  if (!isCommand(word)) {
    throw unknownSubCommand('model', word, Object.keys(MODEL_COMMANDS));
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(modelCommandHelp(word));
    return;
  }
  await runCommand(word, rest);
}

function isCommand(word: string): word is ModelCommandName {
  return Object.hasOwn(MODEL_COMMANDS, word);
}

/** The modules of a command are loaded when it is called: a list needs no ONNX Runtime. */
async function runCommand(command: ModelCommandName, args: readonly string[]): Promise<void> {
  switch (command) {
    case 'check': {
      const { settings, positionals } = parse(command, args);
      assertRepository(settings.modelRepository);
      relaunchForGpu(settings.gpuDir);
      const { check } = await import('./check.ts');
      return finish(settings.json, (output) => check(settings, positionals, output));
    }
    case 'explain': {
      const { settings, positionals } = parse(command, args);
      assertRepository(settings.modelRepository);
      relaunchForGpu(settings.gpuDir);
      const name = onlyOne(command, positionals, 'MODEL');
      const { explain } = await import('./explain.ts');
      return finish(settings.json, (output) => explain(settings, name, output));
    }
    case 'init': {
      const { settings, positionals } = parse(command, args);
      const source = onlyOne(command, positionals, 'FILE.onnx|FOLDER');
      const { init } = await import('./init.ts');
      return finish(settings.json, (output) => init(settings, source, output));
    }
    case 'list': {
      const { settings, positionals } = parse(command, args);
      if (positionals[0] !== undefined) throw unexpectedArgument(`model ${command}`, positionals[0]);
      const { list } = await import('./list.ts');
      return finish(settings.json, (output) => list(settings, output));
    }
    case 'load': {
      const { settings, positionals } = parse(command, args);
      const name = onlyOne(command, positionals, 'MODEL');
      const { load } = await import('./load.ts');
      return finish(settings.json, (output) => load(settings, name, output));
    }
    case 'traffic': {
      const { settings, positionals } = parse(command, args);
      const name = onlyOne(command, positionals.slice(0, 1), 'MODEL');
      const { readTrafficChange, traffic } = await import('./traffic.ts');
      const change = readTrafficChange(settings, positionals.slice(1));
      return finish(settings.json, (output) => traffic(settings, name, change, output));
    }
    case 'unload': {
      const { settings, positionals } = parse(command, args);
      const name = onlyOne(command, positionals, 'MODEL');
      const { unload } = await import('./unload.ts');
      return finish(settings.json, (output) => unload(settings, name, output));
    }
  }
}

/** Models are loaded as a server would; without GPU support this changes nothing. */
function relaunchForGpu(gpuDir: string | undefined): void {
  const gpu = findGpuFolder(gpuDir);
  if (gpu) relaunchWithEnvironment(gpu);
}

function parse<C extends ModelCommandName>(command: C, args: readonly string[]) {
  const flags: Record<string, Flag> = {};
  for (const key of MODEL_COMMAND_FLAGS[command]) flags[key] = MODEL_FLAGS[key];
  const { values, positionals } = parseOptions(`model ${command}`, flags, args, process.env);
  const settings = values as unknown as ModelSettings<C>; // built key by key from the catalogue that the type comes from
  return { settings, positionals };
}

function assertRepository(repositories: readonly string[]): void {
  if (repositories.length > 0) return;
  throw new InferError('INVALID_ARGUMENT', 'no models: --model-repository=DIR names a folder of model folders');
}

function onlyOne(command: ModelCommandName, positionals: readonly string[], what: string): string {
  const [first, second] = positionals;
  if (first === undefined) {
    const usage = `usage: millrace model ${command} ${MODEL_COMMANDS[command].usage}`;
    throw new InferError('INVALID_ARGUMENT', `millrace model ${command} needs ${what}; ${usage}`);
  }
  if (second !== undefined) throw unexpectedArgument(`model ${command}`, second);
  return first;
}
