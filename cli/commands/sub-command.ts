import { InferError } from '../../shared/errors.ts';
import { nearestName } from '../../shared/nearest-name.ts';
import { createOutput, type Output } from './output.ts';

/** What commands that have commands of their own share, such as `millrace model list`. */

/** @param group the command above it, as `model` */
export function unknownSubCommand(group: string, word: string, known: readonly string[]): InferError {
  const suggestion = nearestName(word, known);
  const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`;
  const text = `unknown command "${group} ${word}"${hint} (millrace ${group} --help lists them)`;
  return new InferError('INVALID_ARGUMENT', text);
}

/** @param command the whole of it, as `model list` */
export function unexpectedArgument(command: string, argument: string): InferError {
  return new InferError('INVALID_ARGUMENT', `unexpected argument "${argument}" for millrace ${command}`);
}

/** Runs a command, which returns its exit code. What went wrong is no mistake of the command line any more. */
export async function finish(json: boolean, run: (output: Output) => Promise<number>): Promise<void> {
  const output = createOutput(json);
  try {
    process.exitCode = await run(output);
  } catch (error) {
    const { message, code } = InferError.from(error, error instanceof Error ? error.message : String(error));
    if (json) output.value({ ok: false, error: { code, message } });
    else process.stderr.write(`millrace: ${message}\n`);
    process.exitCode = 1;
  }
}
