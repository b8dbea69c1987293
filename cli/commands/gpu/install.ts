import { mkdir, readdir, rename, rm, statfs, symlink, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { InferError } from '../../../shared/errors.ts';
import { CUDA_MAJOR } from '../../../worker/engine/backend/onnx/gpu/cuda-libraries.ts';
import {
  CORE_FOLDER,
  CORE_NAME,
  type GpuManifest,
  isGpuPlatform,
  MANIFEST_NAME,
  packagedCore,
  problemOfFolder,
  readGpuFolder,
  SITE_FOLDER,
} from '../../../worker/engine/backend/onnx/gpu/gpu-folder.ts';
import type { GpuSettings } from '../../flags/gpu-catalogue.ts';
import { gpuDir } from '../../gpu-dir.ts';
import { buildCommit, identify } from './file-identity.ts';
import { fits, type GpuPackage, neededRoomMb, packagesFor, pipCommand, planText, wheelFor } from './packages.ts';
import { fileSizes, findPip, type Pip, wheelVersion } from './pip.ts';

const WHEEL_FOLDER = 'wheels';
const PROGRESS_MS = 5000;
const BYTES_PER_MB = 1e6;

/**
 * `millrace gpu install`. Until the manifest is written, which is last, the folder counts as empty; what was fetched before
 * an interruption is not fetched again.
 * @throws InferError with what is missing or does not fit
 */
export async function install(settings: GpuSettings<'install'>): Promise<void> {
  if (!isGpuPlatform()) {
    const here = `${process.platform} ${process.arch}`;
    throw new InferError('UNIMPLEMENTED', `the CUDA provider is there for linux x64 only, and this is ${here}`);
  }
  const folder = gpuDir(settings.gpuDir);
  if (folder === undefined) throw new InferError('INVALID_ARGUMENT', '--dir expects a folder, got "off"');
  const core = packagedCore();
  const packages = packagesFor(core.version, settings.providerOnly);
  process.stdout.write(planText(packages, folder, settings.from));
  if (await isComplete(folder, packages)) {
    say('all of it is installed already, and whole; next: millrace gpu check');
    return;
  }
  if (settings.dryRun) {
    say(`to fetch the wheels elsewhere, for --from=DIR: ${pipCommand(packages)}`);
    return;
  }
  if (!settings.yes && !(await agreed())) return;
  const pip = await findPip();
  await assertRoom(folder, packages, settings.from !== undefined);
  const wheels =
    settings.from === undefined
      ? await fetchWheels(pip, packages, join(folder, WHEEL_FOLDER))
      : await wheelsIn(resolve(settings.from), packages);
  const manifest = await unpackAll(pip, wheels, folder, core).catch(async (error: unknown) => {
    await rm(join(folder, SITE_FOLDER), { recursive: true, force: true });
    throw error;
  });
  await writeFile(join(folder, `${MANIFEST_NAME}.new`), `${JSON.stringify(manifest, null, 2)}\n`);
  await rename(join(folder, `${MANIFEST_NAME}.new`), join(folder, MANIFEST_NAME));
  await rm(join(folder, WHEEL_FOLDER), { recursive: true, force: true });
  const count = Object.keys(manifest.files).length;
  say(`installed: ${count} libraries for ONNX Runtime ${manifest.version} (commit ${manifest.commit})`);
  say('next: millrace gpu check');
}

interface Wheel {
  readonly path: string;
  readonly label: string;
}

/** Whether an earlier call has left just this behind. */
async function isComplete(path: string, packages: readonly GpuPackage[]): Promise<boolean> {
  const folder = readGpuFolder(path);
  if (!folder || problemOfFolder(folder)) return false;
  const { packages: labels, files } = folder.manifest;
  if (!packages.every((wanted) => labels.some((label) => fits(wanted, label)))) return false;
  for (const [name, { sha256 }] of Object.entries(files)) {
    if ((await identify(join(path, name))).sha256 !== sha256) return false;
  }
  return true;
}

/** @throws InferError RESOURCE_EXHAUSTED where the disk has less room than wheels and libraries take */
async function assertRoom(folder: string, packages: readonly GpuPackage[], haveWheels: boolean): Promise<void> {
  await mkdir(folder, { recursive: true });
  const { bavail, bsize } = await statfs(folder);
  const hereBytes = (await fileSizes(folder)).reduce((sum, size) => sum + size, 0);
  const freeMb = Math.floor((bavail * bsize + hereBytes) / BYTES_PER_MB);
  const neededMb = neededRoomMb(packages, haveWheels);
  if (freeMb >= neededMb) return;
  throw new InferError('RESOURCE_EXHAUSTED', `${folder} has room for ${freeMb} MB, and ${neededMb} MB are needed`);
}

async function agreed(): Promise<boolean> {
  if (!process.stdin.isTTY) {
    throw new InferError('INVALID_ARGUMENT', 'nobody can be asked here: --yes fetches it all, --dry-run nothing');
  }
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(?:es)?$/i.test((await lines.question('Fetch it? [y/N] ')).trim());
  } finally {
    lines.close();
  }
}

/** One after the other, so that an interruption costs the one under way. */
async function fetchWheels(pip: Pip, packages: readonly GpuPackage[], folder: string): Promise<Wheel[]> {
  const wheels: Wheel[] = [];
  for (const [index, { name, versions, downloadMb }] of packages.entries()) {
    const place = `[${index + 1}/${packages.length}]`;
    say(`${place} ${name}${versions}, about ${downloadMb} MB`);
    const own = join(folder, name);
    const stop = tellProgress(own, downloadMb);
    const { path, wasHere } = await pip.download(`${name}${versions}`, own).finally(stop);
    const label = labelOf(name, path);
    say(`${place} ${label} ${wasHere ? 'was here already' : 'is here'}`);
    wheels.push({ path, label });
  }
  return wheels;
}

/** Says now and then how much of a wheel has come. pip moves it when it is whole, so the largest file is the one. */
function tellProgress(folder: string, downloadMb: number): () => void {
  let lastMb = 0;
  const look = async (): Promise<void> => {
    const mb = Math.floor(Math.max(0, ...(await fileSizes(folder))) / BYTES_PER_MB);
    if (mb > lastMb && mb < downloadMb) say(`      ${mb} of about ${downloadMb} MB`);
    lastMb = mb;
  };
  const timer = setInterval(() => void look(), PROGRESS_MS);
  return () => clearInterval(timer);
}

/** Wheels that somebody has brought. @throws InferError NOT_FOUND that names those that are missing */
async function wheelsIn(folder: string, packages: readonly GpuPackage[]): Promise<Wheel[]> {
  const files = await readdir(folder).catch(() => []); // not there: the text below says what is missing
  const wheels: Wheel[] = [];
  const missing: string[] = [];
  for (const wanted of packages) {
    const file = wheelFor(wanted, files);
    if (file === undefined) missing.push(`${wanted.name}${wanted.versions}`);
    else wheels.push({ path: join(folder, file), label: labelOf(wanted.name, file) });
  }
  if (missing.length === 0) return wheels;
  const text = `${folder} has no wheel for linux x86_64 of ${missing.join(', ')}`;
  throw new InferError('NOT_FOUND', `${text}; --dry-run shows how to fetch them`);
}

function labelOf(name: string, path: string): string {
  return `${name}==${wheelVersion(basename(path))}`;
}

async function unpackAll(
  pip: Pip,
  wheels: readonly Wheel[],
  folder: string,
  core: { readonly path: string; readonly version: string },
): Promise<GpuManifest> {
  const site = join(folder, SITE_FOLDER);
  await rm(join(folder, MANIFEST_NAME), { force: true });
  await rm(site, { recursive: true, force: true });
  await mkdir(site, { recursive: true });
  const files: Record<string, { size: number; sha256: string }> = {};
  let commit = '';
  for (const { path, label } of wheels) {
    say(`unpacking ${label}`);
    const isProvider = label.startsWith('onnxruntime-gpu==');
    for (const name of await pip.unpack(path, site, isProvider)) {
      if (/libonnxruntime\.so\./.test(name)) {
        commit = await sameCommit(core.path, join(site, name), core.version);
        await rm(join(site, name)); // it was here to be compared
      } else if (/\.so[.\d]*$/.test(name)) files[join(SITE_FOLDER, name)] = await identify(join(site, name));
    }
  }
  if (commit === '')
    throw new InferError('UNAVAILABLE', 'the provider came without its core, so nobody knows its build');
  await linkCore(folder, core.path, site);
  return { version: core.version, commit, cuda: CUDA_MAJOR, packages: wheels.map(({ label }) => label), files };
}

/** ONNX Runtime compares nothing: a provider of another build reads past its structures. @throws InferError UNAVAILABLE */
export async function sameCommit(packaged: string, fetched: string, version: string): Promise<string> {
  const [ours, theirs] = [await buildCommit(packaged), await buildCommit(fetched)];
  if (ours !== undefined && ours === theirs) return ours;
  const text = `onnxruntime-node ${version} was built from ${ours ?? 'an unknown commit'}, the CUDA provider from ${theirs ?? 'another'}`;
  throw new InferError('UNAVAILABLE', `${text}: they do not go together, and nothing was installed`);
}

/** The provider is looked for beside the core, and node_modules is not ours to write to. */
async function linkCore(folder: string, core: string, site: string): Promise<void> {
  const links = join(folder, CORE_FOLDER);
  await rm(links, { recursive: true, force: true });
  await mkdir(links);
  await symlink(core, join(links, CORE_NAME));
  for (const name of ['libonnxruntime_providers_cuda.so', 'libonnxruntime_providers_shared.so']) {
    await symlink(join(site, 'onnxruntime', 'capi', name), join(links, name));
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
