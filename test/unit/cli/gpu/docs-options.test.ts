import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Flag, environmentName } from '../../../../cli/flags/flag.ts';
import { GPU_COMMAND_FLAGS, GPU_FLAGS } from '../../../../cli/flags/gpu-catalogue.ts';

const page = readFileSync(new URL('../../../../docs/gpu.md', import.meta.url), 'utf8');
const rows = page.split('\n').filter((line) => line.startsWith('| `--'));

describe('docs/gpu.md', () => {
  it.each(Object.entries(GPU_FLAGS))(
    'has a row for %s with its meaning, default, variable and commands',
    (_, given) => {
      const flag: Flag = given;
      const row = rows.find(
        (line) => line.startsWith(`| \`--${flag.name}=${flag.value}\``) && line.includes(flag.help),
      );
      expect(row).toBeDefined();
      const commands = Object.entries(GPU_COMMAND_FLAGS)
        .filter(([, keys]) =>
          (keys as readonly string[]).some((key) => GPU_FLAGS[key as keyof typeof GPU_FLAGS] === given),
        )
        .map(([name]) => name);
      const cells = row!.split('|').map((cell) => cell.trim().replaceAll('`', ''));
      expect(cells[3]).toBe(flag.default === undefined ? '' : String(flag.default));
      expect(cells[4]).toBe(flag.commandLineOnly ? '' : environmentName(flag));
      expect(cells[5]).toBe(commands.join(', '));
    },
  );

  it('has no row for an option that does not exist', () => {
    expect(rows).toHaveLength(Object.keys(GPU_FLAGS).length);
  });
});
