import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
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
  SITE_FOLDER,
} from '../../../worker/engine/backend/onnx/gpu/gpu-folder.ts';
import type { GpuSettings } from '../../flags/gpu-catalogue.ts';
import { gpuDir } from '../../gpu-dir.ts';
import { buildCommit, identify } from './file-identity.ts';
import { packagesFor, planText } from './packages.ts';
import { type ChosenWheel, findPip, type Pip } from './pip.ts';

const WHEEL_FOLDER = 'wheels';

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
  if (settings.dryRun) return;
  if (!settings.yes && !(await agreed())) return;
  const pip = await findPip();
  const specs = packages.map(({ name, versions }) => `${name}${versions}`);
  const wheels =
    settings.from === undefined
      ? await fetchWheels(pip, specs, join(folder, WHEEL_FOLDER))
      : await wheelsIn(
          resolve(settings.from),
          packages.map(({ name }) => name),
          core.version,
        );
  const manifest = await unpackAll(pip, wheels, folder, core);
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
async function fetchWheels(pip: Pip, specs: readonly string[], folder: string): Promise<Wheel[]> {
  await mkdir(folder, { recursive: true });
  const chosen = await pip.choose(specs);
  const wheels: Wheel[] = [];
  for (const [index, wheel] of chosen.entries()) {
    const label = `${wheel.name} ${wheel.version}`;
    const path = join(folder, wheel.fileName);
    const place = `[${index + 1}/${chosen.length}]`;
    if (await isWhole(path, wheel)) say(`${place} ${label} is here already`);
    else {
      say(`${place} ${label} is being fetched`);
      await rm(path, { force: true });
      await pip.download(wheel, folder);
      if (!(await isWhole(path, wheel)))
        throw new InferError('UNAVAILABLE', `${label} did not arrive whole: try again`);
    }
    wheels.push({ path, label: `${wheel.name}==${wheel.version}` });
  }
  return wheels;
}

/** Where the index tells no hash, a file is taken for whole once pip has moved it to its place. */
async function isWhole(path: string, { sha256 }: ChosenWheel): Promise<boolean> {
  if (!existsSync(path)) return false;
  return sha256 === undefined || (await identify(path)).sha256 === sha256;
}

/** Wheels that somebody has brought. @throws InferError NOT_FOUND that names those that are missing */
async function wheelsIn(folder: string, names: readonly string[], version: string): Promise<Wheel[]> {
  const files = await readdir(folder).catch(() => []); // not there: the text below says what is missing
  const wheels: Wheel[] = [];
  const missing: string[] = [];
  for (const name of names) {
    const start = `${name.replaceAll('-', '_')}-${name === 'onnxruntime-gpu' ? `${version}-` : ''}`;
    const file = files
      .filter((one) => one.startsWith(start) && /x86_64\.whl$/.test(one))
      .sort()
      .at(-1);
    if (file === undefined) missing.push(name === 'onnxruntime-gpu' ? `${name}==${version}` : name);
    else wheels.push({ path: join(folder, file), label: `${name}==${file.split('-')[1] ?? ''}` });
  }
  if (missing.length === 0) return wheels;
  throw new InferError('NOT_FOUND', `${folder} has no wheel for linux x86_64 of ${missing.join(', ')}`);
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
