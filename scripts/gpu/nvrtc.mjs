// Convolutions without NVIDIA's run-time compiler, which cuDNN may or may not want.
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { QUICK } from './parts.mjs';
import { startHolder } from './holder.mjs';
import { rounded, textOf } from './report.mjs';
import { temporary } from './sessions.mjs';

export async function measureWithoutNvrtc(report) {
  const folders = (process.env.LD_LIBRARY_PATH ?? '').split(':').filter((path) => path !== '' && existsSync(path));
  const files = folders.flatMap((folder) => readdirSync(folder).map((name) => ({ name, path: join(folder, name) })));
  const compiler = files.filter(({ name }) => name.startsWith('libnvrtc'));
  report.note('nvrtc', compiler.map(({ name }) => name).join(' ') || null);
  const links = join(temporary, 'without-nvrtc');
  mkdirSync(links);
  for (const { name, path } of files) {
    if (/\.so(?:\.|$)/.test(name) && !name.startsWith('libnvrtc') && !existsSync(join(links, name)))
      symlinkSync(path, join(links, name));
  }
  const env = { ...process.env, LD_LIBRARY_PATH: links };
  const found = {};
  for (const rows of QUICK ? [1] : [1, 8, 64]) {
    const holder = startHolder('vision', rows, env);
    try {
      await holder.ask('open');
      const { runs, tookMs } = await holder.ask(`run ${QUICK ? 100 : 700}`);
      found[rows] = { rowsPerSecond: rounded((runs * rows * 1000) / tookMs) };
    } catch (error) {
      found[rows] = { error: textOf(error) };
    }
    holder.kill('SIGKILL');
    await holder.ended;
    report.note('vision', found);
  }
}
