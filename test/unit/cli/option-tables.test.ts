import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Flag, environmentName } from '../../../cli/flags/flag.ts';
import { GPU_COMMAND_FLAGS, GPU_FLAGS } from '../../../cli/flags/gpu-catalogue.ts';
import { MODEL_COMMAND_FLAGS, MODEL_FLAGS } from '../../../cli/flags/model-catalogue.ts';

interface Catalogue {
  readonly flags: Readonly<Record<string, Flag>>;
  readonly commands: Readonly<Record<string, readonly string[]>>;
}

describe.each<[page: string, catalogue: Catalogue]>([
  ['docs/model-command.md', { flags: MODEL_FLAGS, commands: MODEL_COMMAND_FLAGS }],
  ['docs/gpu.md', { flags: GPU_FLAGS, commands: GPU_COMMAND_FLAGS }],
])('%s', (page, { flags, commands }) => {
  const text = readFileSync(new URL(`../../../${page}`, import.meta.url), 'utf8');
  const rows = text.split('\n').filter((line) => line.startsWith('| `--'));

  it.each(Object.entries(flags))('has a row for %s with its meaning, default, variable and commands', (_, flag) => {
    const row = rows.find((line) => line.startsWith(`| \`--${flag.name}=${flag.value}\``) && line.includes(flag.help));
    expect(row).toBeDefined();
    const takenBy = Object.entries(commands).filter(([, keys]) => keys.some((key) => flags[key] === flag));
    const cells = row!.split('|').map((cell) => cell.trim().replaceAll('`', ''));
    expect(cells[3]).toBe(flag.default === undefined ? '' : String(flag.default));
    expect(cells[4]).toBe(flag.commandLineOnly ? '' : environmentName(flag));
    expect(cells[5]).toBe(takenBy.map(([name]) => name).join(', '));
  });

  it('has no row for an option that does not exist', () => {
    expect(rows).toHaveLength(Object.keys(flags).length);
  });
});
