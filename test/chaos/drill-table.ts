import { appendFileSync } from 'node:fs';
import type { Reporter, TestCase } from 'vitest/node';

interface Row {
  readonly name: string;
  readonly passed: boolean;
  readonly figures: NonNullable<ReturnType<TestCase['meta']>['drill']>;
}

const HEAD = ['drill', 'sent', 'answered', 'refused', 'lost', 'double', 'first answer', 'all as before', 'seed'];

/** One table of all drills, printed when they are over. In Markdown, so that docs/reliability.md can hold it as it is. */
export default class DrillTable implements Reporter {
  readonly #rows: Row[] = [];

  onTestCaseResult(test: TestCase): void {
    const { drill } = test.meta();
    if (drill) this.#rows.push({ name: test.name, passed: test.ok(), figures: drill });
  }

  onTestRunEnd(): void {
    if (this.#rows.length === 0) return;
    const cells = this.#rows.map(({ name, passed, figures }) => {
      const { sent, answered, refused, lost, double, firstMs, recoveryMs, seed } = figures;
      const title = passed ? name : `FAILED: ${name}`;
      return [title, sent, answered, refused, lost, double, seconds(firstMs), seconds(recoveryMs), seed].map(String);
    });
    const widths = HEAD.map((title, column) => Math.max(...[HEAD, ...cells].map((row) => row[column]!.length)));
    const line = (row: readonly string[]) => `| ${row.map((cell, i) => cell.padEnd(widths[i]!)).join(' | ')} |`;
    const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
    const table = [line(HEAD), rule, ...cells.map(line)].join('\n');
    process.stdout.write(`\n${table}\n`);
    const file = process.env['DRILL_TABLE'];
    if (file !== undefined) appendFileSync(file, `${table}\n`);
  }
}

/** Infinity where nothing was sent after the fault. */
function seconds(ms: number): string {
  return Number.isFinite(ms) ? `${(ms / 1000).toFixed(1)} s` : '';
}
