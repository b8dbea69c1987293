import { spawn } from 'node:child_process';
import { InferError } from '../../../shared/errors.ts';

/** A wheel that pip has chosen. */
export interface ChosenWheel {
  readonly name: string;
  readonly version: string;
  readonly fileName: string;
  /** undefined where the index does not tell. */
  readonly sha256: string | undefined;
}

/** So that neither the local Python's version nor its platform decides: nothing of Python in a wheel is used. */
const TARGET = [
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

  /** The newest wheels that fit. @throws InferError UNAVAILABLE with what pip said */
  async choose(specs: readonly string[]): Promise<ChosenWheel[]> {
    const report = await this.#run(['-m', 'pip', 'install', '--dry-run', '--quiet', '--ignore-installed',
      '--report=-', '--target=.', ...TARGET, ...specs]); // prettier-ignore
    return parseReport(report);
  }

  /** One wheel into a folder. What pip says of its progress goes to the terminal. @throws InferError likewise */
  async download({ name, version }: ChosenWheel, folder: string): Promise<void> {
    await this.#run(
      ['-m', 'pip', 'download', `--dest=${folder}`, ...TARGET, `${name}==${version}`],
      process.stderr.isTTY,
    );
  }

  /** The files that were unpacked, by their path below `folder`. @throws InferError INTERNAL when the wheel is damaged */
  async unpack(wheel: string, folder: string, withCore: boolean): Promise<string[]> {
    const text = await this.#run(['-c', UNPACK, wheel, folder, withCore ? 'core' : '']);
    return text.split('\n').filter((line) => line !== '');
  }

  #run(args: readonly string[], shown = false): Promise<string> {
    return runPython(this.#python, args, shown);
  }
}

/** @throws InferError UNAVAILABLE when there is no Python with pip */
export async function findPip(): Promise<Pip> {
  for (const python of ['python3', 'python']) {
    const version = await runPython(python, ['-m', 'pip', '--version'], false).catch(() => undefined); // the next may have it
    if (version !== undefined) return new Pip(python);
  }
  const text = 'Python with pip is needed to fetch and unpack packages, not to run: install python3 and python3-pip';
  throw new InferError('UNAVAILABLE', text);
}

function runPython(python: string, args: readonly string[], shown: boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(python, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (shown) process.stderr.write(text);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-4000)));
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve(stdout);
      else reject(new InferError('UNAVAILABLE', `pip failed: ${lastError(stderr)}`));
    });
  });
}

/** The lines that pip marks as errors, else its last one. */
function lastError(stderr: string): string {
  const lines = stderr.split('\n').filter((line) => line.trim() !== '');
  const errors = lines.filter((line) => line.startsWith('ERROR'));
  return (errors.length > 0 ? errors.join(' ') : (lines.at(-1) ?? 'no reason given')).slice(0, 1000);
}

/** The wheels in pip's installation report. @throws InferError INTERNAL for another text */
export function parseReport(text: string): ChosenWheel[] {
  // Checked below, item by item.
  const { install } = JSON.parse(text.slice(text.indexOf('{'))) as { install?: unknown };
  if (!Array.isArray(install)) throw new InferError('INTERNAL', 'pip gave a report without wheels');
  return install.map((item) => {
    const { metadata, download_info: download } = item as ReportItem;
    const url = download?.url;
    if (!metadata?.name || !metadata.version || !url) throw new InferError('INTERNAL', 'pip gave an unknown report');
    const sha256 =
      download.archive_info?.hashes?.['sha256'] ?? /^sha256=(\w+)/.exec(download.archive_info?.hash ?? '')?.[1];
    const fileName = decodeURIComponent(new URL(url).pathname.split('/').at(-1) ?? '');
    return { name: metadata.name, version: metadata.version, fileName, sha256 };
  });
}

interface ReportItem {
  readonly metadata?: { readonly name?: string; readonly version?: string };
  readonly download_info?: {
    readonly url?: string;
    readonly archive_info?: { readonly hash?: string; readonly hashes?: Readonly<Record<string, string>> };
  };
}
