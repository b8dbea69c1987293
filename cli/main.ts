#!/usr/bin/env node
import { InferError } from '../shared/errors.ts';
import { nearestName } from '../shared/nearest-name.ts';
import { COMMAND_FLAGS, type CommandName } from './flags/catalogue.ts';
import { parseFlags } from './flags/parse-flags.ts';
import { chosenGpus } from './gpu-choice.ts';
import { findGpuFolder } from './gpu-dir.ts';
import { commandHelp, COMMANDS, generalHelp, type ToolName, TOOLS } from './help.ts';
import { relaunchWithEnvironment } from './launch.ts';
import { leaveOnSignalWhileStarting, leaveWithGroup } from './shutdown.ts';
import { VERSION } from './version.ts';

try {
  await run(process.argv.slice(2));
} catch (error) {
  fail(error);
}

async function run(args: readonly string[]): Promise<void> {
  const [word, ...rest] = args;
  if (word === undefined || word === '--help' || word === '-h' || word === 'help') {
    process.stdout.write(generalHelp());
    if (word === undefined) process.exitCode = 2;
    return;
  }
  if (word === '--version' || word === '-v') {
    process.stdout.write(`${VERSION}\n`);
    return;
  }
  if (isTool(word)) {
    await runTool(word, rest);
    return;
  }
  if (!isCommand(word)) {
    const suggestion = nearestName(word, Object.keys({ ...COMMANDS, ...TOOLS }));
    const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`;
    throw new InferError('INVALID_ARGUMENT', `unknown command "${word}"${hint} (millrace --help lists them)`);
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(commandHelp(word));
    return;
  }
  await runCommand(word, rest);
}

function isTool(word: string): word is ToolName {
  return Object.hasOwn(TOOLS, word);
}

async function runTool(tool: ToolName, args: readonly string[]): Promise<void> {
  switch (tool) {
    case 'model':
      return (await import('./commands/model/model.ts')).model(args);
    case 'pool':
      return (await import('./commands/pool/pool.ts')).pool(args);
    case 'gpu':
      return (await import('./commands/gpu/gpu.ts')).gpu(args);
    case 'codegen':
      return (await import('./commands/codegen/codegen.ts')).codegen(args);
    case 'api-key':
      (await import('./commands/api-key.ts')).apiKey(args);
  }
}

function isCommand(word: string): word is CommandName {
  return Object.hasOwn(COMMAND_FLAGS, word);
}

/** The modules of a command are loaded only after the process has its environment: loading them already uses threads. */
async function runCommand(command: CommandName, args: readonly string[]): Promise<void> {
  const environment = process.env;
  if (command === 'producer') {
    const settings = parseFlags(command, args, environment);
    relaunchWithEnvironment();
    leaveOnSignalWhileStarting();
    const { producer } = await import('./commands/producer.ts');
    await producer(settings);
  } else if (command === 'worker') {
    const settings = parseFlags(command, args, environment);
    leaveOnSignalWhileStarting(); // before nvidia-smi is asked, which may take its time
    const gpus = await chosenGpus(settings.gpus);
    if (gpus) {
      const { gpuWorkers } = await import('./gpu-workers.ts');
      process.exitCode = await gpuWorkers(gpus, args, settings, findGpuFolder(settings.gpuDir));
      return;
    }
    leaveWithGroup();
    relaunchWithEnvironment(findGpuFolder(settings.gpuDir));
    const { worker } = await import('./commands/worker.ts');
    await worker(settings);
  } else {
    const settings = parseFlags(command, args, environment);
    relaunchWithEnvironment(findGpuFolder(settings.gpuDir));
    leaveOnSignalWhileStarting();
    const { serve } = await import('./commands/serve.ts');
    await serve(settings);
  }
}

/** One clear line and an exit code; the cause only where somebody asked for details. */
function fail(error: unknown): void {
  const known = InferError.from(error, error instanceof Error ? error.message : String(error));
  process.stderr.write(`millrace: ${known.message}\n`);
  if (process.env['MILLRACE_LOG_VERBOSE'] !== undefined && known.cause instanceof Error) {
    process.stderr.write(`${known.cause.stack ?? ''}\n`);
  }
  process.exitCode = known.code === 'INVALID_ARGUMENT' ? 2 : 1;
}
