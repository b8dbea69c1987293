import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import {
  type GpuFolder,
  isGpuPlatform,
  packagedCore,
  problemOfFolder,
  readGpuFolder,
} from '../../../worker/engine/backend/onnx/gpu/gpu-folder.ts';
import type { GpuSettings } from '../../flags/gpu-catalogue.ts';
import { gpuDir } from '../../gpu-dir.ts';
import type { Output } from '../output.ts';
import { buildCommit, identify } from './file-identity.ts';
import { PROBE_COMMAND, type ProbeLine, type StepResult } from './probe-steps.ts';

/** For all steps of the child: a first run may search for the best convolutions. */
const PROBE_MS = 120_000;

const INSTALL = 'millrace gpu install';

/** `millrace gpu check`. Returns the exit code: 0 when all steps went well. */
export async function check(settings: GpuSettings<'check'>, output: Output): Promise<number> {
  const steps: StepResult[] = [];
  const note = (result: StepResult): boolean => {
    steps.push(result);
    if (!output.json) print(result, output);
    return result.ok;
  };
  const folder = findFolder(gpuDir(settings.gpuDir), note);
  if (folder && note(await checkFiles(folder))) await runProbe(folder, note);
  const ok = steps.every((step) => step.ok);
  if (output.json) output.value({ ok, steps });
  return ok ? 0 : 1;
}

function print({ step, ok, text, repair }: StepResult, output: Output): void {
  output.line(`${output.paint(ok ? 'green' : 'red', ok ? 'ok    ' : 'failed')}  ${step.padEnd(8)}  ${text}`);
  if (repair !== '') output.line(`        ${' '.repeat(8)}  ${repair}`);
}

function findFolder(path: string | undefined, note: (result: StepResult) => boolean): GpuFolder | undefined {
  const failed = (text: string, repair: string): GpuFolder | undefined => {
    note({ step: 'files', ok: false, text, repair });
    return undefined;
  };
  if (!isGpuPlatform()) return failed('the CUDA provider is there for linux x64 only', '');
  if (path === undefined) return failed('GPU support is switched off', 'take --dir=off out');
  const folder = readGpuFolder(path);
  return folder ?? failed(`CUDA provider not installed in ${path}`, INSTALL);
}

/** Whole, and of the same build as the core: both would otherwise show as something else, or as a killed process. */
async function checkFiles(folder: GpuFolder): Promise<StepResult> {
  const failed = (text: string): StepResult => ({ step: 'files', ok: false, text, repair: INSTALL });
  const problem = problemOfFolder(folder);
  if (problem) return failed(problem.message);
  const { files, commit, version, packages } = folder.manifest;
  const ours = await buildCommit(packagedCore().path);
  if (ours !== commit) return failed(`onnxruntime-node is of commit ${ours ?? 'unknown'}, the provider of ${commit}`);
  for (const [name, { sha256 }] of Object.entries(files)) {
    const path = join(folder.path, name);
    if (!existsSync(path) || (await identify(path)).sha256 !== sha256) return failed(`${name} is damaged`);
  }
  const count = Object.keys(files).length;
  const text = `${count} libraries for ONNX Runtime ${version}, commit ${commit}, whole (${packages.join(', ')})`;
  return { step: 'files', ok: true, text, repair: '' };
}

/** In a child, which has the library path and may be killed by what it loads. */
async function runProbe(folder: GpuFolder, note: (result: StepResult) => boolean): Promise<void> {
  const paths = [...folder.libraryFolders, process.env['LD_LIBRARY_PATH'] ?? ''].filter((path) => path !== '');
  const args = [...process.execArgv, process.argv[1] ?? '', 'gpu', PROBE_COMMAND, folder.path];
  const child = spawn(process.execPath, args, {
    // The numbers of nvidia-smi, as in a server.
    env: { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', ...process.env, LD_LIBRARY_PATH: paths.join(':') },
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: PROBE_MS,
    killSignal: 'SIGKILL',
  });
  let step = 'start';
  let failed = false;
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('error', () => resolve({ code: 1, signal: null }));
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
  for await (const text of createInterface({ input: child.stdout })) {
    const line = parseLine(text);
    if (line && 'begins' in line) step = line.begins;
    else if (line && !note(line)) failed = true;
  }
  const { code, signal } = await ended;
  if (code === 0 || failed) return;
  note({ step, ok: false, ...explainEnd(code, signal) });
}

/** A library may print to the same place. */
function parseLine(text: string): ProbeLine | undefined {
  try {
    return JSON.parse(text) as ProbeLine; // written by our own child
  } catch {
    return undefined;
  }
}

/** 135 is how a shell reports SIGBUS, and so does a container's init. */
export function explainEnd(code: number | null, signal: NodeJS.Signals | null): { text: string; repair: string } {
  if (signal === 'SIGBUS' || code === 135)
    return { text: 'a library is cut short: it killed the process', repair: INSTALL };
  if (signal === 'SIGKILL') return { text: `it took longer than ${PROBE_MS / 1000} s, or was killed`, repair: '' };
  return { text: `the process ended with ${signal ?? code ?? 'nothing'}`, repair: '' };
}
