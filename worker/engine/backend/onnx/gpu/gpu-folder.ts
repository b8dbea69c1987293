import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { type CudaProblem, damaged } from './cuda-error.ts';

/** What `millrace gpu install` leaves behind beside the files. */
export interface GpuManifest {
  /** Of ONNX Runtime; that of the package in node_modules, too. */
  readonly version: string;
  /** The commit that both cores were built from. */
  readonly commit: string;
  /** The CUDA that the provider is built for. */
  readonly cuda: number;
  /** By name and version, `nvidia-cublas==13.1`. */
  readonly packages: readonly string[];
  /** By their path inside the folder. */
  readonly files: Readonly<Record<string, { readonly size: number; readonly sha256: string }>>;
}

/** A folder with GPU support for this installation. */
export interface GpuFolder {
  readonly path: string;
  readonly manifest: GpuManifest;
  /** ONNX Runtime's core by a link, with the providers beside it: they are looked for where the core was loaded from. */
  readonly core: string;
  /** For the loader's search path, most important first. */
  readonly libraryFolders: readonly string[];
}

export const MANIFEST_NAME = 'manifest.json';
export const CORE_NAME = 'libonnxruntime.so.1';
export const CORE_FOLDER = 'ort';
/** Where the packages are unpacked. */
export const SITE_FOLDER = 'site';

/** The provider runs on nothing else. */
export function isGpuPlatform(): boolean {
  return process.platform === 'linux' && process.arch === 'x64';
}

/** The core of the onnxruntime-node package, with its version. */
export function packagedCore(): { readonly path: string; readonly version: string } {
  const packageFolder = join(dirname(createRequire(import.meta.url).resolve('onnxruntime-node')), '..');
  // Only `version` is read, and checked.
  const { version } = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8')) as { version?: unknown };
  if (typeof version !== 'string') throw new Error('the onnxruntime-node package does not tell its version');
  return { path: join(packageFolder, 'bin', 'napi-v6', process.platform, process.arch, CORE_NAME), version };
}

/** The folder as it lies there, whatever its files are worth; undefined when it has no manifest that can be read. */
export function readGpuFolder(path: string): GpuFolder | undefined {
  if (!isGpuPlatform()) return undefined;
  const manifest = readManifest(path);
  if (!manifest) return undefined;
  const core = join(path, CORE_FOLDER, CORE_NAME);
  return { path, manifest, core, libraryFolders: [dirname(core), ...nvidiaFolders(path)] };
}

/**
 * What keeps the folder from being used, without reading its files: one that was cut short would kill the process when its
 * code is touched, and the provider of another version misbehaves without a word.
 */
export function problemOfFolder({ path, manifest, core }: GpuFolder): CudaProblem | undefined {
  const packaged = packagedCore();
  if (manifest.version !== packaged.version) {
    const message = `the CUDA provider is of ONNX Runtime ${manifest.version}, this installation has ${packaged.version}`;
    return { stage: 'provider', message, repair: 'run millrace gpu install' };
  }
  if (!existsSync(core) || realpathSync(core) !== realpathSync(packaged.path)) {
    const message = 'the CUDA provider was installed for another installation of Millrace';
    return { stage: 'provider', message, repair: 'run millrace gpu install' };
  }
  for (const [name, { size }] of Object.entries(manifest.files)) {
    if (statSync(join(path, name), { throwIfNoEntry: false })?.size !== size) return damaged(name);
  }
  return undefined;
}

function readManifest(path: string): GpuManifest | undefined {
  let read: unknown;
  try {
    read = JSON.parse(readFileSync(join(path, MANIFEST_NAME), 'utf8'));
  } catch {
    return undefined; // not there, or not finished: no GPU support is installed
  }
  if (typeof read !== 'object' || read === null) return undefined;
  const { version, commit, cuda, packages, files } = read as Partial<GpuManifest>; // checked here, field by field
  if (typeof version !== 'string' || typeof commit !== 'string' || typeof cuda !== 'number') return undefined;
  if (!Array.isArray(packages) || typeof files !== 'object') return undefined;
  return { version, commit, cuda, packages, files };
}

/** `site/nvidia/cu13/lib`, `site/nvidia/cudnn/lib` …: whatever packages have brought. */
function nvidiaFolders(path: string): string[] {
  const nvidia = join(path, SITE_FOLDER, 'nvidia');
  if (!existsSync(nvidia)) return [];
  return readdirSync(nvidia)
    .sort()
    .map((name) => join(nvidia, name, 'lib'))
    .filter((folder) => existsSync(folder));
}
