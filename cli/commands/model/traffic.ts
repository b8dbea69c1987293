import type { TrafficView } from '../../../producer/service/traffic/traffic-control.ts';
import { InferError } from '../../../shared/errors.ts';
import { type TrafficRuleJson, trafficRuleToJson } from '../../../shared/traffic/traffic-json.ts';
import { checkSticky, parseShadow, parseShares } from '../../../shared/traffic/traffic-rule.ts';
import type { ModelSettings } from '../../flags/model-catalogue.ts';
import type { Output } from '../output.ts';
import { createServerClient } from '../server-client.ts';

type Change = TrafficRuleJson | 'clear' | undefined;

/**
 * What the command line asks for; undefined to show only.
 * @throws InferError INVALID_ARGUMENT
 */
export function readTrafficChange(settings: ModelSettings<'traffic'>, shares: readonly string[]): Change {
  const { sticky, shadow, fallback, clear } = settings;
  const asked = shares.length > 0 || sticky !== '' || shadow !== undefined || fallback;
  if (clear) {
    if (!asked) return 'clear';
    throw new InferError('INVALID_ARGUMENT', '--clear takes everything back and goes with nothing else');
  }
  if (!asked) return undefined;
  return trafficRuleToJson({
    shares: parseShares('shares', shares.join(' ')),
    sticky: checkSticky('--sticky', sticky),
    shadow: shadow === undefined ? undefined : parseShadow('--shadow', shadow, readTolerance(settings.tolerance)),
    fallback,
  });
}

function readTolerance(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new InferError('INVALID_ARGUMENT', `--tolerance expects a number of 0 or more, got "${text}"`);
}

/** `millrace model traffic`: sets or clears how requests are spread, and shows what holds then. */
export async function traffic(
  settings: ModelSettings<'traffic'>,
  name: string,
  change: Change,
  output: Output,
): Promise<number> {
  const view = await createServerClient(settings).traffic(name, change);
  if (output.json) output.value({ ok: true, ...view });
  else printTraffic(view, output);
  return 0;
}

const SOURCES: Readonly<Record<TrafficView['source'], string>> = {
  command: 'set by a command',
  config: 'as the config says',
  policy: 'the version policy decides',
};

function printTraffic(view: TrafficView, output: Output): void {
  const { model, source, versions, sticky, fallback, fallen } = view;
  output.line(`${output.paint('bold', model)}  ${SOURCES[source]}`);
  const rows = versions.map(({ version, state, share, effective, requests }) => [
    version,
    share === null ? '-' : shareText(share, effective ?? share),
    state === '' ? '-' : state,
    String(requests),
  ]);
  printColumns([['version', 'share', 'state', 'requests'], ...rows], output);
  if (sticky !== '') output.line(`sticky by the request parameter ${JSON.stringify(sticky)}`);
  if (fallback) output.line('the newest version loses its share when it fails more than the others');
  for (const { version, reason, at } of fallen) {
    output.line(`${output.paint('red', `version ${version} has fallen`)} at ${at}: ${reason}`);
  }
  printShadow(view, output);
}

function shareText(share: number, effective: number): string {
  const now = Math.round(effective * 1000) / 1000;
  return now === share ? `${share}%` : `${share}% (now ${now}%)`;
}

function printColumns(rows: readonly (readonly string[])[], output: Output): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  for (const [index, row] of rows.entries()) {
    const line = row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
    output.line(index === 0 ? output.paint('dim', line.trimEnd()) : line.trimEnd());
  }
}

function printShadow({ shadow }: TrafficView, output: Output): void {
  if (!shadow) return;
  const { version, percent, same, different, errors, skipped } = shadow;
  const part = percent === 100 ? 'all requests' : `${percent}% of the requests`;
  output.line(
    `version ${version} gets copies of ${part}: ${same} same, ${different} different, ${errors} failed, ${skipped} skipped`,
  );
  const { largest_difference: largest, shadow_us: shadowUs, served_us: servedUs } = shadow;
  if (shadowUs === null || servedUs === null) return;
  const difference = largest === null ? 'answers of another form' : `largest difference ${largest.toPrecision(3)}`;
  output.line(`  ${difference}, tolerance ${shadow.tolerance}; ${shadowUs} µs against ${servedUs} µs`);
}
