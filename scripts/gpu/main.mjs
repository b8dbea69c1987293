// What scripts/gpu-check runs: the whole of it, the packing, or one part in a process of its own.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { dist } from './places.mjs';

const [first, ...rest] = process.argv.slice(2);
const options = Object.fromEntries(
  process.argv.slice(2).flatMap((text) => {
    const [, name, value = 'true'] = /^--([a-z-]+)(?:=(.*))?$/.exec(text) ?? [];
    return name === undefined ? [] : [[name, value]];
  }),
);
const positionals = process.argv.slice(2).filter((text) => !text.startsWith('--'));
const known = ['quick', 'only', 'mb', 'gpu-dir', 'provider', 'part'];
const unknown = Object.keys(options).find((name) => !known.includes(name));

if (unknown !== undefined || positionals.length > (first === 'pack' ? 2 : 1))
  fail(2, `unknown ${unknown ?? positionals}`);
else if (first === 'pack') {
  if (rest.length === 0 || positionals.length < 2) fail(2, 'pack needs a folder: scripts/gpu-check pack DIR');
  else {
    const { pack } = await import('./pack.mjs');
    await pack(resolve(positionals[1]), options).catch((error) => fail(1, error.message));
  }
} else if (!existsSync(dist('cli/main.js'))) fail(2, 'there is no build: npm run build');
else if (options.part !== undefined) {
  const { measurePart } = await import('./parts.mjs');
  await measurePart(options.part);
} else {
  const { runAll } = await import('./run.mjs');
  const quick = options.quick === 'true';
  process.exitCode = await runAll(resolve(positionals[0] ?? 'gpu-check.json'), quick, options.only?.split(','));
}

function fail(code, text) {
  process.stderr.write(`gpu-check: ${text}\n`);
  process.exitCode = code;
}
