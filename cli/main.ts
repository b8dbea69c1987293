#!/usr/bin/env node
import { InferError } from '../shared/errors.ts';
import { nearestName } from '../shared/nearest-name.ts';
import { COMMAND_FLAGS, type CommandName } from './flags/catalogue.ts';
import { parseFlags } from './flags/parse-flags.ts';
import { findGpuFolder } from './gpu-dir.ts';
import {
  API_KEY_COMMAND,
  CODEGEN_COMMAND,
  commandHelp,
  COMMANDS,
  generalHelp,
  GPU_COMMAND,
  MODEL_COMMAND,
  POOL_COMMAND,
} from './help.ts';
import { relaunchWithEnvironment } from './launch.ts';
import { leaveOnSignalWhileStarting } from './shutdown.ts';
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
  if (word === MODEL_COMMAND) {
    const { model } = await import('./commands/model/model.ts');
    await model(rest);
    return;
  }
  if (word === CODEGEN_COMMAND) {
    const { codegen } = await import('./commands/codegen/codegen.ts');
    await codegen(rest);
    return;
  }
  if (word === API_KEY_COMMAND) {
    const { apiKey } = await import('./commands/api-key.ts');
    apiKey(rest);
    return;
  }
  if (word === GPU_COMMAND) {
    const { gpu } = await import('./commands/gpu/gpu.ts');
    await gpu(rest);
    return;
  }
  if (word === POOL_COMMAND) {
    const { pool } = await import('./commands/pool/pool.ts');
    await pool(rest);
    return;
  }
  if (!isCommand(word)) {
    const suggestion = nearestName(word, [
      ...Object.keys(COMMANDS),
      MODEL_COMMAND,
      POOL_COMMAND,
      CODEGEN_COMMAND,
      API_KEY_COMMAND,
      GPU_COMMAND,
    ]);
    const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`;
    throw new InferError('INVALID_ARGUMENT', `unknown command "${word}"${hint} (millrace --help lists them)`);
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(commandHelp(word));
    return;
  }
  await runCommand(word, rest);
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
    relaunchWithEnvironment(findGpuFolder(settings.gpuDir));
    leaveOnSignalWhileStarting();
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
