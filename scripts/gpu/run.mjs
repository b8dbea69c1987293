// Runs the parts one after the other, each in a process of its own with a time bound, and writes what they found.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, release, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { answers } from './answers.mjs';
import { PARTS } from './parts.mjs';
import { dist, gpuDirOption, libraryPath } from './places.mjs';

/** All of it ends within eight minutes. */
const LIMIT_MS = 450_000;
const CHECK_MS = 100_000;
const STDERR_CHARS = 1500;

const main = fileURLToPath(new URL('main.mjs', import.meta.url));

/**
 * @param only names of parts; all unless given
 * @returns the exit code: 0 when a GPU works and no part failed
 */
export async function runAll(out, quick, only) {
  const endsMs = performance.now() + LIMIT_MS;
  const { readGpuFolder } = await import(dist('worker/engine/backend/onnx/gpu/gpu-folder.js'));
  const { gpuDir } = await import(dist('cli/gpu-dir.js'));
  const path = gpuDir(gpuDirOption());
  const folder = path === undefined ? undefined : readGpuFolder(path);
  const env = { ...process.env, LD_LIBRARY_PATH: libraryPath(folder), ...(path && { MILLRACE_GPU_DIR: path }) };
  const temporary = mkdtempSync(join(tmpdir(), 'millrace-gpu-check-'));
  const result = { ok: false, ...machine(folder, quick), check: null, parts: {}, answers: {} };
  const save = () => {
    result.answers = answers(result);
    writeFileSync(`${out}.new`, `${JSON.stringify(result, null, 2)}\n`);
    renameSync(`${out}.new`, out);
  };
  try {
    result.check = check(env);
    const reason = unusable(result.check);
    if (reason) say(`no GPU can be used: ${reason}`);
    for (const [name, part] of Object.entries(PARTS)) {
      if (only && !only.includes(name)) continue;
      if (reason) result.parts[name] = { skipped: reason };
      else {
        say(name);
        const limitMs = Math.min(part.limitMs, endsMs - performance.now());
        result.parts[name] =
          limitMs < 2000
            ? { skipped: 'no time was left' }
            : await runPart(name, limitMs, temporary, env, quick, result);
      }
      save();
    }
    const parts = Object.entries(result.parts);
    const failed = parts.filter(([, part]) => part.error !== undefined || part.skipped !== undefined);
    if (!reason)
      for (const [name, part] of failed) say(`${name} failed: ${(part.error ?? part.skipped).split('\n')[0]}`);
    result.ok = result.check.ok === true && failed.length === 0;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
    save();
  }
  process.stdout.write(`${out}\n`);
  return result.ok ? 0 : 1;
}

function say(line) {
  process.stderr.write(`gpu-check: ${line}\n`);
}

function machine(folder, quick) {
  const fields = 'index,name,uuid,driver_version,memory.total,compute_cap,mig.mode.current,compute_mode';
  const smi = spawnSync('nvidia-smi', [`--query-gpu=${fields}`, '--format=csv'], { encoding: 'utf8', timeout: 20_000 });
  return {
    date: new Date().toISOString(),
    quick,
    millrace: JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version,
    node: process.version,
    system: release(),
    cpu: `${cpus().length} x ${cpus()[0]?.model.trim() ?? ''}`,
    memoryBytes: totalmem(),
    card: smi.error ? `nvidia-smi: ${smi.error.code}` : `${smi.stdout}${smi.stderr}`.trim(),
    onnxruntime: folder?.manifest.version ?? null,
    packages: folder?.manifest.packages ?? [],
  };
}

function check(env) {
  const args = [dist('cli/main.js'), 'gpu', 'check', '--json'];
  const { stdout, stderr, signal } = spawnSync(process.execPath, args, {
    env,
    encoding: 'utf8',
    timeout: CHECK_MS,
    killSignal: 'SIGKILL',
  });
  try {
    return JSON.parse(stdout);
  } catch {
    return { ok: false, steps: [], error: signal ? `ended with ${signal}` : stderr.slice(-STDERR_CHARS) };
  }
}

/** Why nothing can be measured; undefined once a session has run. */
function unusable({ ok, steps = [], error }) {
  if (ok || steps.some(({ step, ok: went }) => step === 'session' && went)) return undefined;
  const failed = steps.find((step) => !step.ok);
  return failed ? [failed.text, failed.repair].filter(Boolean).join('; ') : (error ?? 'the check said nothing');
}

/** Never rejects. What the part has noted is kept, however it ends. */
function runPart(name, limitMs, temporary, env, quick, result) {
  const file = join(temporary, `${name}.json`);
  const startedMs = performance.now();
  const known = { matrix: result.parts.matrix?.best ?? null, vision: result.parts.vision?.best ?? null };
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [main, `--part=${name}`], {
      env: {
        ...env,
        MILLRACE_GPU_CHECK_OUT: file,
        MILLRACE_GPU_CHECK_BEST: JSON.stringify(known),
        ...(quick && { MILLRACE_GPU_CHECK_QUICK: '1' }),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true, // a group, so that nothing that it started outlives it
    });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr = (stderr + text).slice(-STDERR_CHARS)));
    let late = false;
    const kill = () => {
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // all of them have left
      }
    };
    const timer = setTimeout(() => {
      late = true;
      kill();
    }, limitMs);
    let over = false;
    const end = (why) => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      kill();
      const found = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
      const tookMs = Math.round(performance.now() - startedMs);
      const error = late ? `it was ended after ${Math.round(limitMs / 1000)} s` : (found.error ?? why);
      resolve({ ...found, tookMs, ...(error && { error, stderr: stderr.trim() }) });
    };
    child.once('error', (error) => end(error.message));
    child.once('exit', (code, signal) => end(code === 0 ? undefined : `it ended with ${signal ?? code}`));
  });
}
