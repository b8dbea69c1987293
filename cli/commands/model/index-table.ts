import type { Output } from '../output.ts';
import type { IndexRow } from '../server-client.ts';

const TITLES = { name: 'model', version: 'version', state: 'state', reason: 'reason' } as const satisfies IndexRow;

/** Prints the rows as columns. A model that nobody has loaded yet has no version and no state. */
export function printIndex(rows: readonly IndexRow[], output: Output): void {
  const width = (key: keyof IndexRow) => Math.max(...[TITLES, ...rows].map((row) => shown(row[key]).length));
  const [names, versions, states] = [width('name'), width('version'), width('state')];
  const line = (row: IndexRow, paintState: (text: string) => string) =>
    [
      shown(row.name).padEnd(names),
      shown(row.version).padEnd(versions),
      paintState(shown(row.state).padEnd(states)),
      row.reason.replace(/\s+/g, ' '),
    ]
      .join('  ')
      .trimEnd();
  output.line(
    output.paint(
      'dim',
      line(TITLES, (text) => text),
    ),
  );
  for (const row of rows) output.line(line(row, (text) => output.paint(colourOf(row.state), text)));
}

function shown(text: string): string {
  return text === '' ? '-' : text;
}

function colourOf(state: string): 'green' | 'red' | 'yellow' {
  if (state === 'READY') return 'green';
  return state === 'UNAVAILABLE' ? 'red' : 'yellow';
}
