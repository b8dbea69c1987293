import { formatDims } from '../../../shared/model/dims.ts';
import type { LoadReport } from './model-loader.ts';
import type { Output } from '../output.ts';
import type { Problem } from './problem.ts';

/** A line with a tick or a cross for the model, and a paragraph for each problem and warning. */
export function printReport({ model, versions, problems, warnings }: LoadReport, output: Output): void {
  const fine = problems.length === 0;
  const mark = fine ? output.paint('green', '✓') : output.paint('red', '✗');
  const label = versions.length === 1 ? 'version' : 'versions';
  output.line(
    `${mark} ${output.paint('bold', model)}${versions.length === 0 ? '' : `  ${label} ${versions.join(', ')}`}`,
  );
  for (const warning of warnings) output.line(`    ${output.paint('yellow', 'warning')} ${warning}`);
  for (const problem of problems) for (const line of problemLines(problem, output)) output.line(`    ${line}`);
}

function problemLines(problem: Problem, output: Output): string[] {
  const { message, tensor, shapes, fix } = problem;
  const place = placeOf(problem);
  const what = tensor && shapes ? `${tensor.kind} "${tensor.name}" has another shape in the model file` : message;
  const rows: [string, string][] = [];
  if (tensor && shapes) {
    rows.push([
      'config',
      `${tensor.field ?? 'dims'} ${formatDims(shapes.config)} with max_batch_size ${shapes.maxBatchSize}`,
    ]);
    rows.push(['effective', formatDims(shapes.effective)]);
    rows.push(['model file', formatDims(shapes.model)]);
  }
  if (fix !== undefined) rows.push(['repair', fix]);
  return [
    place === '' ? what : `${output.paint('bold', place)} ${what}`,
    ...rows.map(([label, text]) => `    ${label.padEnd(10)}  ${text}`),
  ];
}

function placeOf({ file, line, column }: Problem): string {
  if (file === undefined) return '';
  return line === undefined || column === undefined ? `${file}:` : `${file}:${line}:${column}:`;
}
