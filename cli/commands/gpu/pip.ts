import { spawn } from 'node:child_process';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { InferError } from '../../../shared/errors.ts';

/** So that neither the local Python's version nor its platform decides: nothing of Python in a wheel is used. */
export const TARGET = [
  '--no-deps',
  '--only-binary=:all:',
  '--python-version=3.12',
  '--implementation=cp',
  ...['manylinux_2_28', 'manylinux_2_27', 'manylinux_2_17', 'manylinux2014', 'manylinux_2_12', 'manylinux2010'].map(
    (tag) => `--platform=${tag}_x86_64`,
  ),
  '--platform=manylinux_2_5_x86_64',
  '--platform=manylinux1_x86_64',
];

/** Copies what is wanted out of a wheel: libraries, and the terms that they come under. */
const UNPACK = `
import re, sys, zipfile
wheel, target, core = sys.argv[1:]
wanted = re.compile(r'^nvidia/[^/]+/lib/[^/]+\\.so[.0-9]*$'
                    r'|^onnxruntime/capi/libonnxruntime_providers_(cuda|shared)\\.so$'
                    r'|\\.dist-info/(licenses/.*|License.txt|LICENSE[^/]*)$|^onnxruntime/LICENSE$')
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if wanted.search(name) or (core == 'core' and re.match(r'^onnxruntime/capi/libonnxruntime\\.so\\.', name)):
            print(archive.extract(name, target)[len(target) + 1:])
`;

/** Runs pip, the user's own with their index and proxy. */
export class Pip {
  readonly #python: string;

  constructor(python: string) {
    this.#python = python;
  }

  /**
   * The newest wheel that fits into a folder of its own, which is made; one that is there whole is not fetched again.
   * What pip has so far lies in `folder` too: the system's folder for temporary files may be small.
   * @returns its path, and whether it was there. @throws InferError UNAVAILABLE with what pip said
   */
  async download(spec: string, folder: string): Promise<{ readonly path: string; readonly wasHere: boolean }> {
    const temporary = join(folder, TEMPORARY);
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary, { recursive: true });
    const args = ['-m', 'pip', 'download', '--progress-bar=off', `--dest=${folder}`, ...TARGET, spec];
    const text = await runPython(this.#python, args, { ...process.env, TMPDIR: temporary });
    await rm(temporary, { recursive: true, force: true });
    const wheel = newestWheel(await readdir(folder));
    if (wheel === undefined) throw new InferError('UNAVAILABLE', `pip brought no wheel of ${spec}`);
    return { path: join(folder, wheel), wasHere: /already downloaded/.test(text) };
  }

  /** The files that were unpacked, by their path below `folder`. @throws InferError INVALID_ARGUMENT when the wheel is damaged */
  async unpack(wheel: string, folder: string, withCore: boolean): Promise<string[]> {
    const args = ['-c', UNPACK, wheel, folder, withCore ? 'core' : ''];
    const text = await runPython(this.#python, args, process.env).catch((cause: unknown) => {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new InferError('INVALID_ARGUMENT', `${basename(wheel)} cannot be unpacked: ${reason}`, { cause });
    });
    return text.split('\n').filter((line) => line !== '');
  }
}

/** Where pip keeps what it has of a wheel, inside the folder that it fetches into. */
const TEMPORARY = 'partial';

/** Sizes of the files in a folder, at any depth. */
export async function fileSizes(folder: string): Promise<number[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => []); // not there yet
  const files = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => undefined))); // moved meanwhile
  return files.flatMap((file) => (file?.isFile() ? [file.size] : []));
}

/** Of the names in a folder: the wheel with the highest version. */
export function newestWheel(names: readonly string[]): string | undefined {
  return names
    .filter((name) => name.endsWith('.whl'))
    .sort((a, b) => compareVersions(wheelVersion(a), wheelVersion(b)))
    .at(-1);
}

export function wheelVersion(name: string): string {
  return name.split('-')[1] ?? '';
}

/** By their numbers, so that 13.10 comes after 13.9. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split('.').map((part) => Number.parseInt(part, 10) || 0));
  const length = Math.max(left?.length ?? 0, right?.length ?? 0);
  for (let index = 0; index < length; index += 1) {
    const difference = (left?.[index] ?? 0) - (right?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** @throws InferError UNAVAILABLE when there is no Python with pip */
export async function findPip(): Promise<Pip> {
  for (const python of ['python3', 'python']) {
    const version = await runPython(python, ['-m', 'pip', '--version'], process.env).catch(() => undefined); // the next may have it
    if (version !== undefined) return new Pip(python);
  }
  const text = 'Python with pip is needed to fetch and unpack packages, not to run: install python3 and python3-pip';
  throw new InferError('UNAVAILABLE', text);
}

function runPython(python: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(python, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-4000)));
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (code === 0) resolve(stdout);
      else reject(new InferError('UNAVAILABLE', `python failed: ${signal ?? lastError(stderr)}`));
    });
  });
}

/** The lines that pip marks as errors, else its last one. */
function lastError(stderr: string): string {
  const lines = stderr.split('\n').filter((line) => line.trim() !== '');
  const errors = lines.filter((line) => line.startsWith('ERROR'));
  return (errors.length > 0 ? errors.join(' ') : (lines.at(-1) ?? 'no reason given')).slice(0, 1000);
}
