import { InferError } from '../errors.ts';
import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import { checkSticky, DEFAULT_TOLERANCE, parseShadow, parseShares, type TrafficRule } from './traffic-rule.ts';

/** Keys of a config's `parameters` that make up its rule. */
const KEYS = {
  shares: 'traffic',
  sticky: 'traffic_sticky',
  shadow: 'traffic_shadow',
  tolerance: 'traffic_shadow_tolerance',
  fallback: 'traffic_fallback',
} as const;

/** The rule that a sound config brings along; undefined for none. */
export function trafficRuleOfConfig(config: ModelConfig): TrafficRule | undefined {
  return readRule(config);
}

/** What is wrong with the rule of a config, one text each. */
export function findTrafficProblems(config: ModelConfig): string[] {
  try {
    readRule(config);
    return [];
  } catch (error) {
    return [InferError.from(error).message];
  }
}

function readRule({ parameters }: ModelConfig): TrafficRule | undefined {
  const valueOf = (key: string) => (Object.hasOwn(parameters, key) ? parameters[key]?.stringValue : undefined);
  const given = Object.values(KEYS).some((key) => valueOf(key) !== undefined);
  if (!given) return undefined;
  const shadow = valueOf(KEYS.shadow);
  if (shadow === undefined && valueOf(KEYS.tolerance) !== undefined) {
    throw new InferError('INVALID_ARGUMENT', `${where(KEYS.tolerance)} means nothing without "${KEYS.shadow}"`);
  }
  const tolerance = Number(valueOf(KEYS.tolerance) ?? DEFAULT_TOLERANCE);
  return {
    shares: parseShares(where(KEYS.shares), valueOf(KEYS.shares) ?? ''),
    sticky: checkSticky(where(KEYS.sticky), valueOf(KEYS.sticky) ?? ''),
    shadow: shadow === undefined ? undefined : parseShadow(where(KEYS.shadow), shadow, tolerance),
    fallback: readSwitch(KEYS.fallback, valueOf(KEYS.fallback) ?? 'false'),
  };
}

function readSwitch(key: string, text: string): boolean {
  if (text === 'true' || text === '1') return true;
  if (text === 'false' || text === '0') return false;
  throw new InferError('INVALID_ARGUMENT', `${where(key)}: expected "true" or "false", got "${text}"`);
}

function where(key: string): string {
  return `parameter "${key}"`;
}
