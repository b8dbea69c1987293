import type { ModelSettings } from '../../flags/model-catalogue.ts';
import { openModelLoader, type LoadReport } from './model-loader.ts';
import type { Output } from '../output.ts';
import { printReport } from './print-problem.ts';

/** `millrace model check`: loads each model as a server would, one at a time, and says what is wrong with which. */
export async function check(
  settings: ModelSettings<'check'>,
  names: readonly string[],
  output: Output,
): Promise<number> {
  const loader = await openModelLoader(settings);
  const reports: LoadReport[] = [];
  if (!output.json) for (const text of loader.warnings) output.line(`${output.paint('yellow', 'warning')} ${text}`);
  try {
    const folders = names.length === 0 ? loader.folders : [...new Set(names)].map((name) => loader.folder(name));
    for (const folder of folders) {
      const report = settings.noRun ? await loader.compare(folder) : await loader.load(folder);
      if (report.ready) await loader.unload(folder.name);
      reports.push(report);
      if (!output.json) printReport(report, output);
    }
  } finally {
    await loader.close();
  }
  const wrong = reports.filter(({ problems }) => problems.length > 0).length;
  if (output.json) output.value({ ok: wrong === 0, warnings: loader.warnings, models: reports.map(asJson) });
  else output.line(`\n${reports.length} ${reports.length === 1 ? 'model' : 'models'}, ${shownCount(wrong)}`);
  return wrong === 0 ? 0 : 1;
}

function asJson({ model, versions, problems, warnings }: LoadReport) {
  return { model, ok: problems.length === 0, versions, problems, warnings };
}

function shownCount(wrong: number): string {
  if (wrong === 0) return 'no problems';
  return `${wrong} with problems`;
}
