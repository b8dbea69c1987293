import { InferError } from '../errors.ts';
import { shownText, shownValue } from '../tensor/text.ts';
import { isRecord } from '../wire/record.ts';
import {
  checkShadow,
  checkShares,
  checkSticky,
  DEFAULT_TOLERANCE,
  type ShadowRule,
  type TrafficRule,
} from './traffic-rule.ts';

/** A rule as JSON has it, over HTTP and in Redis. Equal rules give equal texts. */
export interface TrafficRuleJson {
  readonly shares: Readonly<Record<string, number>>;
  readonly sticky: string;
  readonly shadow: ShadowRule | null;
  readonly fallback: boolean;
}

export function trafficRuleToJson({ shares, sticky, shadow, fallback }: TrafficRule): TrafficRuleJson {
  return { shares: Object.fromEntries(shares), sticky, shadow: shadow ?? null, fallback };
}

const FIELDS: readonly string[] = ['shares', 'sticky', 'shadow', 'fallback'] satisfies (keyof TrafficRuleJson)[];

/** @throws InferError INVALID_ARGUMENT for anything that is no rule; what is left out has its default. */
export function trafficRuleOfJson(json: unknown): TrafficRule {
  if (!isRecord(json)) throw invalid(`expected an object, got ${shownValue(json)}`);
  const unknown = Object.keys(json).find((name) => !FIELDS.includes(name));
  if (unknown !== undefined) throw invalid(`unknown field "${shownText(unknown)}", expected ${FIELDS.join(', ')}`);
  const { shares = {}, sticky = '', shadow = null, fallback = false } = json;
  if (!isRecord(shares)) throw invalid('shares must be an object of percents by version');
  if (typeof sticky !== 'string') throw invalid(`sticky must be a text, got ${shownValue(sticky)}`);
  if (typeof fallback !== 'boolean') throw invalid(`fallback must be true or false, got ${shownValue(fallback)}`);
  return {
    shares: checkShares(
      'traffic: shares',
      new Map(Object.entries(shares).map(([version, percent]) => [version, asNumber(`share of ${version}`, percent)])),
    ),
    sticky: checkSticky('traffic: sticky', sticky),
    shadow: shadow === null ? undefined : shadowOfJson(shadow),
    fallback,
  };
}

function shadowOfJson(json: unknown): ShadowRule {
  if (!isRecord(json)) throw invalid('shadow must be an object with a version, or null');
  const { version, percent = 100, tolerance = DEFAULT_TOLERANCE } = json;
  if (typeof version !== 'string') throw invalid(`the version of shadow must be a text, got ${shownValue(version)}`);
  return checkShadow('traffic: shadow', {
    version,
    percent: asNumber('percent of shadow', percent),
    tolerance: asNumber('tolerance of shadow', tolerance),
  });
}

function asNumber(what: string, value: unknown): number {
  if (typeof value === 'number') return value;
  throw invalid(`${what} must be a number, got ${shownValue(value)}`);
}

function invalid(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `traffic: ${what}`);
}
