import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Flag, environmentName } from '../../../../cli/flags/flag.ts';
import { MODEL_COMMAND_FLAGS, MODEL_FLAGS } from '../../../../cli/flags/model-catalogue.ts';

const page = readFileSync(new URL('../../../../docs/model-command.md', import.meta.url), 'utf8');
const rows = page.split('\n').filter((line) => line.startsWith('| `--'));

describe('docs/model-command.md', () => {
  it.each(Object.entries(MODEL_FLAGS))(
    'has a row for %s with its meaning, default, variable and commands',
    (key, given) => {
      const flag: Flag = given;
      const row = rows.find(
        (line) => line.startsWith(`| \`--${flag.name}=${flag.value}\``) && line.includes(flag.help),
      );
      expect(row).toBeDefined();
      const commands = Object.entries(MODEL_COMMAND_FLAGS)
        .filter(([, keys]) => (keys as readonly string[]).includes(key))
        .map(([name]) => name);
      const cells = row!.split('|').map((cell) => cell.trim().replaceAll('`', ''));
      expect(cells[3]).toBe(flag.default === undefined ? '' : String(flag.default));
      expect(cells[4]).toBe(flag.commandLineOnly ? '' : environmentName(flag));
      expect(cells[5]).toBe(commands.join(', '));
    },
  );

  it('has no row for an option that does not exist', () => {
    expect(rows).toHaveLength(Object.keys(MODEL_FLAGS).length);
  });
});
