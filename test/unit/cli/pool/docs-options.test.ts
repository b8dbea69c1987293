import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { environmentName, type Flag } from '../../../../cli/flags/flag.ts';
import { POOL_COMMAND_FLAGS, POOL_FLAGS } from '../../../../cli/flags/pool-catalogue.ts';

const page = readFileSync(new URL('../../../../docs/pool.md', import.meta.url), 'utf8');
const rows = page.split('\n').filter((line) => line.startsWith('| `--'));

describe('docs/pool.md', () => {
  it.each(Object.entries(POOL_FLAGS))(
    'has a row for %s with its meaning, default, variable and commands',
    (key, given) => {
      const flag: Flag = given;
      const row = rows.find((line) => line.startsWith(`| \`--${flag.name}=${flag.value}\``));
      const cells = row!.split('|').map((cell) => cell.trim().replaceAll('`', ''));
      const commands = Object.entries(POOL_COMMAND_FLAGS)
        .filter(([, keys]) => (keys as readonly string[]).includes(key))
        .map(([name]) => name);
      expect(cells.slice(2, 6)).toEqual([
        flag.help,
        flag.default === undefined ? '' : String(flag.default),
        flag.commandLineOnly ? '' : environmentName(flag),
        commands.join(', '),
      ]);
    },
  );

  it('has no row for an option that does not exist', () => {
    expect(rows).toHaveLength(Object.keys(POOL_FLAGS).length);
  });
});
