// Where things lie, in the repository and in a folder that was packed alike.
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** A file of the build. */
export function dist(path) {
  return join(ROOT, 'dist', path);
}

/** The folder of `millrace gpu install`: what was packed, else what is installed. */
export function gpuDirOption() {
  const packed = join(ROOT, 'gpu');
  if (process.env.MILLRACE_GPU_DIR) return process.env.MILLRACE_GPU_DIR;
  return existsSync(join(packed, 'manifest.json')) ? packed : undefined;
}

/** Folders for the loader: those of GPU support, then NVIDIA's libraries of a Python environment, then a driver's. */
export function libraryPath(folder) {
  const own = folder?.libraryFolders ?? [];
  const nvidia = own.length > 1 ? [] : foreignLibraries();
  const driver = ['/usr/local/nvidia/lib64', '/usr/local/nvidia/lib'].filter((path) =>
    existsSync(join(path, 'libcuda.so.1')),
  );
  return [...own, ...nvidia, process.env.LD_LIBRARY_PATH, ...driver].filter(Boolean).join(':');
}

/** As colon list in NVIDIA_DIRS, else `nvidia/NAME/lib` of the Python at hand. */
function foreignLibraries() {
  if (process.env.NVIDIA_DIRS) return process.env.NVIDIA_DIRS.split(':');
  const code = 'import sys,site;print("\\n".join(sys.path+site.getsitepackages()))';
  for (const python of ['python3', 'python']) {
    const { status, stdout } = spawnSync(python, ['-c', code], { encoding: 'utf8', timeout: 20_000 });
    if (status !== 0) continue;
    const found = [...new Set(stdout.split('\n'))].flatMap(librariesBelow);
    if (found.length > 0) return [...new Set(found)];
  }
  return [];
}

function librariesBelow(site) {
  const nvidia = join(site, 'nvidia');
  if (site === '' || !existsSync(nvidia)) return [];
  const folders = readdirSync(nvidia).map((name) => join(nvidia, name, 'lib'));
  return folders.filter((folder) => existsSync(folder) && readdirSync(folder).some((name) => name.includes('.so')));
}

/** Where the Redis of this check is: brought along, or the machine's. Undefined where there is none. */
export function redisServer() {
  const packed = join(ROOT, 'redis', 'redis-server');
  if (existsSync(packed)) return { command: packed, env: { LD_LIBRARY_PATH: join(ROOT, 'redis', 'lib') } };
  const { status } = spawnSync('redis-server', ['--version'], { timeout: 10_000 });
  return status === 0 ? { command: 'redis-server', env: {} } : undefined;
}
