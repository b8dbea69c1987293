import { isRecord } from '../wire/record.ts';

/** How long a run of so many rows takes, in ms. */
export interface CurvePoint {
  readonly rows: number;
  readonly ms: number;
}

/** How far the answer for a row moves with the rows that run beside it, at worst among those that were tried. */
export interface CompanyDifference {
  /** Length of the difference by the length of the answer; 0 where nothing moves. */
  readonly relative: number;
  /** The largest difference of one number. */
  readonly maxAbs: number;
  /** Between the answer alone and the answer in company. */
  readonly cosine: number;
  /** Up to which `relative` requests are merged. */
  readonly tolerance: number;
}

/** What a load found out about the batches of a model version, and what its scheduler makes of it now. */
export interface BatchingReport {
  /** Whether requests share runs at all. */
  readonly merges: boolean;
  /** Most rows of a run that is put together from several requests. */
  readonly maxRows: number;
  /** How long a request may wait for company. */
  readonly delayMs: number;
  /** Whether rows and delay are chosen from the curve instead of the config. */
  readonly auto: boolean;
  /** `slo_p99_ms`; undefined for none. */
  readonly goalMs: number | undefined;
  /** Why they are what they are; '' where the config says so. */
  readonly reason: string;
  /** The rows that a run may have, ascending: it is filled up to one of them. Absent where any may be. */
  readonly sizes?: readonly number[];
  /** As measured at load, ascending in rows; empty where nothing was measured. */
  readonly curve: readonly CurvePoint[];
  /** Undefined where it was not measured. */
  readonly company: CompanyDifference | undefined;
}

/** What somebody else wrote as a report; undefined for anything that is none. */
export function readBatchingReport(wire: unknown): BatchingReport | undefined {
  if (!isRecord(wire) || typeof wire.reason !== 'string' || !Array.isArray(wire.curve)) return undefined;
  const { merges, auto, maxRows, delayMs, goalMs, reason } = wire;
  if (typeof merges !== 'boolean' || typeof auto !== 'boolean') return undefined;
  if (!isAmount(maxRows) || !isAmount(delayMs) || (goalMs !== undefined && !isAmount(goalMs))) return undefined;
  const curve = wire.curve.filter(isPoint).map(({ rows, ms }) => ({ rows, ms }));
  const sizes = Array.isArray(wire.sizes) ? wire.sizes.filter(isAmount) : [];
  const company = readDifference(wire.company);
  return { merges, maxRows, delayMs, auto, goalMs, reason, ...(sizes.length > 0 && { sizes }), curve, company };
}

function readDifference(wire: unknown): CompanyDifference | undefined {
  if (!isRecord(wire)) return undefined;
  const { relative, maxAbs, cosine, tolerance } = wire;
  const known = isAmount(relative) && isAmount(maxAbs) && isAmount(tolerance) && typeof cosine === 'number';
  return known ? { relative, maxAbs, cosine, tolerance } : undefined;
}

function isPoint(wire: unknown): wire is CurvePoint {
  return isRecord(wire) && isAmount(wire.rows) && isAmount(wire.ms);
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}
