import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { type GpuFolder, readGpuFolder } from '../worker/engine/backend/onnx/gpu/gpu-folder.ts';

/** Where GPU support is installed unless a folder is named. */
export function defaultGpuDir(): string {
  const data = process.env['XDG_DATA_HOME'];
  return join(data === undefined || data === '' ? join(homedir(), '.local', 'share') : data, 'millrace', 'gpu');
}

/** The folder that `--gpu-dir` means; undefined for `off`. */
export function gpuDir(option: string | undefined): string | undefined {
  if (option === 'off') return undefined;
  return option === undefined || option === '' ? defaultGpuDir() : resolve(option);
}

/** GPU support as it is installed; undefined where it is not, or switched off. */
export function findGpuFolder(option: string | undefined): GpuFolder | undefined {
  const path = gpuDir(option);
  return path === undefined ? undefined : readGpuFolder(path);
}
