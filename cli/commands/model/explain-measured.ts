import type { BatchingReport } from '../../../shared/infer/batching-report.ts';
import { LONELY_WAITS } from '../../../worker/engine/schedule/wait-evidence.ts';

/** When a run begins, where the engine has chosen it. */
export function chosenWords({ maxRows, delayMs, auto, goalMs, reason, sizes }: BatchingReport): string[] {
  const goal = goalMs === undefined ? '' : `, for slo_p99_ms ${goalMs}`;
  const chosen = auto
    ? [`Rows and delay are chosen from the measured times${goal}, and again while the model runs.`]
    : goalMs === undefined
      ? []
      : [`The delay is bounded${goal}, and again while the model runs.`];
  const why = reason === '' ? [] : [sentence(reason)];
  if (maxRows === 1) return [...chosen, ...why, 'Now each request is a run of its own, and nobody waits for company.'];
  const company = `at most ${ms(delayMs)} from the arrival of the oldest request`;
  const lone = `A lone request runs at once after ${LONELY_WAITS} waits in a row that brought nobody.`;
  const wait = delayMs === 0 ? 'fewer as soon as an instance is idle.' : `fewer wait ${company}. ${lone}`;
  const filled = sizes ? [`A run has ${sizes.join(', ')} rows and is filled up where there are fewer.`] : [];
  return [...chosen, ...why, `Now a run starts with ${maxRows} rows, ${wait}`, ...filled];
}

/** What was measured at load. */
export function measuredWords({ curve, company }: BatchingReport): string[] {
  const alone = curve[0];
  const most = curve.at(-1);
  const words: string[] = [];
  if (alone && most) {
    const points = curve.map((point) => `${point.rows}: ${ms(point.ms)}`).join(', ');
    const gain = `a row takes ${ms(most.ms / most.rows)} in a run of ${most.rows}, ${ms(alone.ms)} alone`;
    words.push(`Measured now, on this machine, by rows: ${points}; ${gain}.`);
  }
  if (company) {
    const moved = Number(company.relative.toPrecision(2));
    const how = moved === 0 ? 'does not move' : `moves by up to ${moved} of its size`;
    words.push(`With other rows beside it an answer ${how}; batch_tolerance is ${company.tolerance}.`);
  }
  return words;
}

export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function ms(value: number): string {
  return value < 1 ? `${Number((value * 1000).toPrecision(3))} µs` : `${Number(value.toPrecision(3))} ms`;
}
