// Makes a folder that measures on a machine with a GPU and nothing else: Node, the build, what it needs of node_modules, GPU
// support, and Redis where this machine has it. `--mb=N` also makes an archive in parts of at most N MB, with what joins them;
// `--provider=FILE` takes another file for the provider, one that was made smaller for the card.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { dist, gpuDirOption, ROOT } from './places.mjs';

const CUDA_PROVIDER = 'libonnxruntime_providers_cuda.so';

/** Of the C library; whatever runs a process has its own. */
const SYSTEM_LIBRARY = /^(?:linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)[.-]/;

/** @throws Error where something is missing or the folder is not empty */
export async function pack(target, options) {
  if (!existsSync(dist('cli/main.js'))) throw new Error('there is no build: npm run build');
  if (existsSync(target) && readdirSync(target).length > 0) throw new Error(`${target} is not empty`);
  const folder = await gpuFolder(options['gpu-dir']);
  mkdirSync(target, { recursive: true });
  packNode(target);
  cpSync(join(ROOT, 'dist'), join(target, 'dist'), { recursive: true });
  copyFileSync(join(ROOT, 'package.json'), join(target, 'package.json'));
  cpSync(join(ROOT, 'scripts', 'gpu'), join(target, 'scripts', 'gpu'), { recursive: true });
  copyFileSync(join(ROOT, 'scripts', 'gpu-check'), join(target, 'scripts', 'gpu-check'));
  packModules(target);
  packGpu(folder, target, options.provider);
  packRedis(target);
  say(`${target}: ${megabytes(sizeOf(target))} MB; on the machine with the GPU: bash scripts/gpu-check OUT.json in it`);
  if (options.mb !== undefined) packArchive(target, Number(options.mb));
}

function say(line) {
  process.stdout.write(`${line}\n`);
}

async function gpuFolder(option) {
  const { gpuDir } = await import(dist('cli/gpu-dir.js'));
  const { problemOfFolder, readGpuFolder } = await import(dist('worker/engine/backend/onnx/gpu/gpu-folder.js'));
  const folder = readGpuFolder(gpuDir(option ?? gpuDirOption()));
  if (!folder) throw new Error('GPU support is not installed here: millrace gpu install, or --provider-only of it');
  const problem = problemOfFolder(folder);
  if (problem) throw new Error(`${problem.message}: ${problem.repair}`);
  return folder;
}

function packNode(target) {
  const node = join(target, 'node', 'bin', 'node');
  mkdirSync(dirname(node), { recursive: true });
  copyFileSync(realpathSync(process.execPath), node);
  chmodSync(node, 0o755);
  spawnSync('strip', [node], { timeout: 60_000 }); // smaller by a fifth, where there is such a tool
}

/** Those that run, without the libraries of other systems. */
function packModules(target) {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
  const paths = Object.entries(lock.packages)
    .filter(([path, { dev, devOptional }]) => path.startsWith('node_modules/') && !dev && !devOptional)
    .map(([path]) => path)
    .filter((path) => existsSync(join(ROOT, path)));
  const other = new RegExp(`onnxruntime-node/bin/[^/]+/(?!${process.platform}(?:/|$))`);
  const foreign = (path) => other.test(path) || /onnxruntime-node\/bin\/[^/]+\/linux\/(?!x64(?:\/|$))/.test(path);
  for (const path of paths) {
    cpSync(join(ROOT, path), join(target, path), {
      recursive: true,
      dereference: true,
      // Packages inside this one are in the list themselves.
      filter: (source) => {
        const inside = relative(join(ROOT, path), source);
        return !foreign(source) && !/(?:^|\/)node_modules(?:\/|$)/.test(inside) && !/\.(?:map|d\.ts|md)$/.test(source);
      },
    });
  }
}

/** With a manifest of its own; the core is that of the packed node_modules. */
function packGpu(folder, target, provider) {
  const gpu = join(target, 'gpu');
  mkdirSync(join(gpu, 'ort'), { recursive: true });
  const files = { ...folder.manifest.files };
  for (const name of Object.keys(files)) {
    const other = provider !== undefined && basename(name) === CUDA_PROVIDER;
    mkdirSync(dirname(join(gpu, name)), { recursive: true });
    copyFileSync(other ? provider : join(folder.path, name), join(gpu, name));
    if (other) files[name] = { size: statSync(provider).size, sha256: hashOf(provider) };
  }
  writeFileSync(join(gpu, 'manifest.json'), `${JSON.stringify({ ...folder.manifest, files }, null, 2)}\n`);
  const core = join(target, 'node_modules/onnxruntime-node/bin/napi-v6/linux/x64/libonnxruntime.so.1');
  symlinkSync(relative(join(gpu, 'ort'), core), join(gpu, 'ort', 'libonnxruntime.so.1'));
  for (const name of [CUDA_PROVIDER, 'libonnxruntime_providers_shared.so']) {
    symlinkSync(join('..', 'site', 'onnxruntime', 'capi', name), join(gpu, 'ort', name));
  }
}

function packRedis(target) {
  const found = spawnSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' }).stdout.trim();
  if (found === '') {
    say('redis-server is not on this machine: the queue is measured only where the other one has it');
    return;
  }
  const server = realpathSync(found);
  mkdirSync(join(target, 'redis', 'lib'), { recursive: true });
  copyFileSync(server, join(target, 'redis', 'redis-server'));
  const lines = spawnSync('ldd', [server], { encoding: 'utf8' }).stdout.split('\n');
  for (const [, name, path] of lines.map((line) => /^\s*(\S+) => (\S+)/.exec(line) ?? [])) {
    if (path !== undefined && existsSync(path) && !SYSTEM_LIBRARY.test(name)) {
      copyFileSync(realpathSync(path), join(target, 'redis', 'lib', name));
    }
  }
}

/** `TARGET-1`, `TARGET-2` …: pieces of one archive, and in each the script that joins them where all have arrived. */
function packArchive(target, mb) {
  if (!(mb >= 1)) throw new Error(`--mb expects a number of MB from 1 up, got "${mb}"`);
  const archive = `${target}.tar.xz`;
  const args = ['-C', target, '-cf', archive, '--use-compress-program=xz -T0 -2', '.'];
  const { status, stderr } = spawnSync('tar', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`the archive could not be made: ${stderr}`);
  const size = statSync(archive).size;
  const pieceBytes = Math.floor(mb * 1e6) - 10_000;
  const count = Math.ceil(size / pieceBytes);
  const sum = hashOf(archive);
  const file = openSync(archive, 'r');
  for (let index = 0; index < count; index += 1) {
    const folder = `${target}-${index + 1}`;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    const piece = Buffer.alloc(Math.min(pieceBytes, size - index * pieceBytes));
    readSync(file, piece, 0, piece.length, index * pieceBytes);
    writeFileSync(join(folder, `piece.${String(index).padStart(3, '0')}`), piece);
    writeFileSync(join(folder, 'join.sh'), joinScript(count, sum));
  }
  closeSync(file);
  rmSync(archive);
  say(`${count} parts, ${megabytes(size)} MB in all: bash ${basename(target)}-1/join.sh, and so on for each of them`);
}

/** Keeps the pieces in GPU_CHECK_STORE between calls; the last one unpacks and measures. */
function joinScript(count, sum) {
  return `#!/usr/bin/env bash
# Takes the piece beside it into a store; when all ${count} are there, unpacks them and measures. Further arguments are gpu-check's.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
store=\${GPU_CHECK_STORE:-$PWD/.gpu-check}
mkdir -p "$store/pieces"
cp "$here"/piece.* "$store/pieces/"
have=$(ls "$store/pieces" | wc -l)
if [ "$have" -lt ${count} ]; then
  echo "gpu-check: $have of ${count} parts are here"
  exit 0
fi
if [ ! -e "$store/run/.whole" ]; then
  mkdir -p "$store/run"
  cat "$store/pieces"/piece.* > "$store/all.tar.xz"
  echo "${sum}  $store/all.tar.xz" | sha256sum -c --quiet
  if command -v xz > /dev/null && command -v tar > /dev/null; then xz -dc "$store/all.tar.xz" | tar -C "$store/run" -xf -
  else python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' "$store/all.tar.xz" "$store/run"; fi
  rm "$store/all.tar.xz"
  touch "$store/run/.whole"
fi
exec bash "$store/run/scripts/gpu-check" "$@"
`;
}

function hashOf(path) {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

function sizeOf(path) {
  const stat = lstatSync(path);
  if (!stat.isDirectory()) return stat.isSymbolicLink() ? 0 : stat.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}

function megabytes(bytes) {
  return Math.round(bytes / 1e6);
}
