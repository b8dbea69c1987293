import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { COMMAND_FLAGS, FLAGS, type FlagKey } from '../../../cli/flags/catalogue.ts';
import { environmentName, type Flag } from '../../../cli/flags/flag.ts';

const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
const rows = readme.split('\n').filter((line) => line.startsWith('| `--'));

describe('the README', () => {
  it.each(Object.keys(FLAGS) as FlagKey[])('has a row for %s with its variable and its commands', (key) => {
    const flag: Flag = FLAGS[key];
    const row = rows.find((line) => line.startsWith(`| \`--${flag.name}=${flag.value}\``));
    expect(row).toBeDefined();
    expect(row).toContain(environmentName(flag));
    const takenBy = Object.entries(COMMAND_FLAGS).filter(([, keys]) => (keys as readonly string[]).includes(key));
    const commands = takenBy.length === 3 ? 'all' : takenBy.map(([name]) => name).join(', ');
    expect(row?.trimEnd().replace(/\s+\|$/, '')).toMatch(new RegExp(`\\| ${commands}$`));
    if (typeof flag.default === 'string' || key === 'httpPort') expect(row).toContain(String(flag.default));
  });

  it('has no row for an option that does not exist', () => {
    expect(rows).toHaveLength(Object.keys(FLAGS).length);
  });
});
