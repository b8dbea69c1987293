import type { BatchingReport } from '../../../shared/infer/batching-report.ts';
import { diffModelConfigs, type ConfigLine, encodeModelConfigText } from '../../../shared/model/config-text.ts';
import type { ModelConfig } from '../../../shared/proto/generated/model_config_pb.ts';
import type { ModelSettings } from '../../flags/model-catalogue.ts';
import { batchingWords, instanceWords, tensorWords, versionWords } from './explain-words.ts';
import { openModelLoader, type LoadReport } from './model-loader.ts';
import type { Output } from '../output.ts';
import { printReport } from './print-problem.ts';

/**
 * `millrace model explain`: what a model takes and gives, what becomes of its requests, and what was added to its config. A
 * model that cannot be served is explained as far as it goes, after what is wrong with it.
 */
export async function explain(settings: ModelSettings<'explain'>, name: string, output: Output): Promise<number> {
  const loader = await openModelLoader(settings);
  let report: LoadReport;
  let explanation: Explanation | undefined;
  try {
    const folder = loader.folder(name);
    report = await loader.load(folder);
    const { available, versions, written, completed } = await loader.examine(folder, !report.ready);
    const config = report.ready?.config ?? completed;
    if (written && config)
      explanation = explanationOf({ written, config, available, versions, report: report.batching });
    if (report.ready) await loader.unload(name);
  } finally {
    await loader.close();
  }
  const { problems, warnings } = report;
  if (output.json) output.value({ model: name, ok: problems.length === 0, problems, warnings, ...explanation });
  else {
    printReport(report, output);
    if (explanation) printExplanation(explanation, output);
  }
  return problems.length === 0 ? 0 : 1;
}

interface Explanation {
  readonly versions: {
    readonly words: string;
    readonly available: readonly string[];
    readonly served: readonly string[];
  };
  readonly inputs: readonly ReturnType<typeof tensorWords>[];
  readonly outputs: readonly ReturnType<typeof tensorWords>[];
  readonly batching: readonly string[];
  /** What `batching` is told from, where the model was loaded and batches. */
  readonly measured?: BatchingReport;
  readonly instances: readonly string[];
  /** The completed config as text, and the same as lines against what config.pbtxt says. */
  readonly config: string;
  readonly diff: readonly ConfigLine[];
}

function explanationOf(parts: {
  readonly written: ModelConfig;
  readonly config: ModelConfig;
  readonly available: readonly string[];
  readonly versions: readonly string[];
  readonly report: BatchingReport | undefined;
}): Explanation {
  const { written, config, available, versions, report } = parts;
  return {
    versions: { words: versionWords(config, available, versions), available, served: versions },
    inputs: config.input.map((input) => tensorWords(config, input)),
    outputs: config.output.map((each) => tensorWords(config, each)),
    batching: batchingWords(config, report),
    ...(report && { measured: report }),
    instances: instanceWords(config),
    config: encodeModelConfigText(config),
    diff: diffModelConfigs(written, config),
  };
}

function printExplanation({ versions, inputs, outputs, batching, instances, diff }: Explanation, output: Output): void {
  const section = (title: string, lines: readonly string[]) => {
    if (lines.length === 0) return;
    output.line(`\n${output.paint('bold', title)}`);
    for (const line of lines) output.line(`  ${line}`);
  };
  const width = Math.max(0, ...[...inputs, ...outputs].map(({ name }) => name.length));
  const shown = ({ name, words, shape }: Explanation['inputs'][number]) =>
    `${name.padEnd(width)}  ${words}  ${output.paint('dim', `[${shape.join(',')}]`)}`;
  section('versions', [versions.words]);
  section('takes', inputs.map(shown));
  section('gives', outputs.map(shown));
  section('batching', batching);
  section('instances', instances);
  section(
    'config, completed (+ added to config.pbtxt)',
    diff.map((line) => diffLine(line, output)),
  );
}

function diffLine({ mark, text }: ConfigLine, output: Output): string {
  if (mark === 'added') return output.paint('green', `+ ${text}`);
  return mark === 'removed' ? output.paint('red', `- ${text}`) : `  ${text}`;
}
