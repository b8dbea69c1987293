import { InferError } from '../errors.ts';
import { compareVersions, isVersion } from '../model/version-directories.ts';
import { shownText } from '../tensor/text.ts';

/** A version that gets copies of requests, whose answers are compared and thrown away. */
export interface ShadowRule {
  readonly version: string;
  /** Which part of the requests is copied. */
  readonly percent: number;
  /** Numbers a and b count as equal up to this times the largest of 1, |a| and |b|. */
  readonly tolerance: number;
}

/** How requests that name no version are spread over the versions of a model. */
export interface TrafficRule {
  /** Percent of the requests by version, ascending by version; together 100. Empty where the version policy decides. */
  readonly shares: ReadonlyMap<string, number>;
  /** The request parameter whose value decides, so that equal values get the same version; '' for none. */
  readonly sticky: string;
  readonly shadow: ShadowRule | undefined;
  /** Whether the newest version loses its share when it fails more than the others. */
  readonly fallback: boolean;
}

export const DEFAULT_TOLERANCE = 0.001;

const MAX_VERSIONS = 32;
const MAX_STICKY_LENGTH = 256;
/** Shares are exact to this part of a percent. */
const STEPS_PER_PERCENT = 1000;

/**
 * `2=5%,1=95%`, parted by commas or spaces; the percent sign may be left out.
 * @param where for messages
 * @throws InferError INVALID_ARGUMENT
 */
export function parseShares(where: string, text: string): ReadonlyMap<string, number> {
  const shares = new Map<string, number>();
  for (const part of text.split(/[\s,]+/).filter((word) => word !== '')) {
    const [, version, percent] = /^(\d+)=(\d+(?:\.\d+)?)%?$/.exec(part) ?? [];
    if (version === undefined || percent === undefined) {
      throw invalid(where, `expected VERSION=PERCENT, like 2=5%, got "${shownText(part)}"`);
    }
    if (shares.has(version)) throw invalid(where, `version ${version} is there twice`);
    shares.set(version, Number(percent));
  }
  return checkShares(where, shares);
}

/** `2` or `2=10%`. @throws InferError INVALID_ARGUMENT */
export function parseShadow(where: string, text: string, tolerance: number): ShadowRule {
  const [, version, percent = '100'] = /^(\d+)(?:=(\d+(?:\.\d+)?)%?)?$/.exec(text.trim()) ?? [];
  if (version === undefined) throw invalid(where, `expected VERSION or VERSION=PERCENT, got "${shownText(text)}"`);
  return checkShadow(where, { version, percent: Number(percent), tolerance });
}

/** @throws InferError INVALID_ARGUMENT */
export function checkShares(where: string, shares: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  if (shares.size > MAX_VERSIONS) throw invalid(where, `${shares.size} versions, at most ${MAX_VERSIONS} are allowed`);
  let sum = 0;
  for (const [version, percent] of shares) {
    if (!isVersion(version)) throw invalid(where, `"${shownText(version)}" is no version, expected a number from 1 up`);
    if (!isPercent(percent)) {
      throw invalid(where, `version ${version}: expected a share from 0 to 100 in steps of 0.001, got ${percent}`);
    }
    sum += toSteps(percent);
  }
  if (shares.size > 0 && sum !== 100 * STEPS_PER_PERCENT) {
    throw invalid(where, `the shares add up to ${sum / STEPS_PER_PERCENT}, expected 100`);
  }
  return new Map([...shares].sort(([a], [b]) => compareVersions(a, b)));
}

/** @throws InferError INVALID_ARGUMENT */
export function checkShadow(where: string, shadow: ShadowRule): ShadowRule {
  const { version, percent, tolerance } = shadow;
  if (!isVersion(version)) throw invalid(where, `"${shownText(version)}" is no version, expected a number from 1 up`);
  if (!isPercent(percent)) throw invalid(where, `expected a share from 0 to 100 in steps of 0.001, got ${percent}`);
  if (!(tolerance >= 0) || !Number.isFinite(tolerance)) {
    throw invalid(where, `expected a tolerance of 0 or more, got ${tolerance}`);
  }
  return shadow;
}

/** @throws InferError INVALID_ARGUMENT */
export function checkSticky(where: string, sticky: string): string {
  if (sticky.length <= MAX_STICKY_LENGTH) return sticky;
  throw invalid(where, `expected the name of a request parameter, at most ${MAX_STICKY_LENGTH} characters long`);
}

/** A share as a whole number; 100 percent are 100,000 steps. */
export function toSteps(percent: number): number {
  return Math.round(percent * STEPS_PER_PERCENT);
}

function isPercent(percent: number): boolean {
  return percent >= 0 && percent <= 100 && Math.abs(toSteps(percent) - percent * STEPS_PER_PERCENT) < 1e-6;
}

function invalid(where: string, what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `${where}: ${what}`);
}
