import { execFile, type ExecFileException } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from './process.ts';

const FOLDER = join(ROOT, '.cache', 'clients-venv');
const REQUIREMENTS = join(ROOT, 'test', 'clients', 'requirements.txt');
const INSTALL_TIMEOUT_MS = 540_000;

export interface Output {
  /** null when it ran out of time. */
  readonly code: number | null;
  /** stdout and stderr, one after the other. */
  readonly text: string;
}

/** The interpreter of an environment that holds test/clients/requirements.txt; made once, and again when that changes. */
export async function pythonWithClients(): Promise<string> {
  const python = join(FOLDER, 'bin', 'python');
  const wanted = createHash('sha256').update(readFileSync(REQUIREMENTS)).digest('hex');
  const stamp = join(FOLDER, 'requirements.sha256');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return python;
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  await install('python3', ['-m', 'venv', FOLDER]);
  await install(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', REQUIREMENTS]);
  await writeFile(stamp, wanted);
  return python;
}

/** Runs a program to its end, whatever its exit code. */
export function run(
  program: string,
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly timeoutMs?: number; readonly cwd?: string } = {},
): Promise<Output> {
  const { env = {}, timeoutMs = 240_000, cwd = ROOT } = options;
  return new Promise((resolve, reject) => {
    execFile(
      program,
      [...args],
      { cwd, env: { ...process.env, ...env }, timeout: timeoutMs, maxBuffer: 64 * 1024 * 1024 },
      (error: ExecFileException | null, stdout, stderr) => {
        if (error?.code === 'ENOENT') reject(new Error(`${program} was not found`));
        else
          resolve({
            code: error === null ? 0 : typeof error.code === 'number' ? error.code : null,
            text: stdout + stderr,
          });
      },
    );
  });
}

async function install(program: string, args: readonly string[]): Promise<void> {
  const { code, text } = await run(program, args, { timeoutMs: INSTALL_TIMEOUT_MS });
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} failed\n${text}`);
}
