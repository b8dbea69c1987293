import { InferError } from '../errors.ts';
import { isVersion } from '../model/version-directories.ts';
import { isCount, isRecord } from '../wire/record.ts';
import { trafficRuleOfJson, trafficRuleToJson } from './traffic-json.ts';
import type { FallenVersion, TrafficEntry } from './traffic-store.ts';

const ENTRY_VERSION = 1;

/** An entry as text; equal entries give equal texts. */
export function encodeTrafficEntry({ source, rule, fallen }: TrafficEntry): string {
  return JSON.stringify({
    v: ENTRY_VERSION,
    source,
    rule: trafficRuleToJson(rule),
    fallen: fallen.map(({ version, reason, atMs }) => ({ version, reason, atMs })),
  });
}

/** @throws InferError INVALID_ARGUMENT for anything that `encodeTrafficEntry` does not write. */
export function decodeTrafficEntry(text: string): TrafficEntry {
  const wire = parseJson(text);
  if (!isRecord(wire) || wire.v !== ENTRY_VERSION) throw broken(`it is none of version ${ENTRY_VERSION}`);
  const { source, rule, fallen } = wire;
  if ((source !== 'command' && source !== 'config') || !Array.isArray(fallen) || !fallen.every(isFallen)) {
    throw broken('a field is missing');
  }
  return { source, rule: trafficRuleOfJson(rule), fallen };
}

function isFallen(wire: unknown): wire is FallenVersion {
  return (
    isRecord(wire) &&
    typeof wire.version === 'string' &&
    isVersion(wire.version) &&
    typeof wire.reason === 'string' &&
    isCount(wire.atMs)
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InferError('INVALID_ARGUMENT', 'broken traffic entry: it is not JSON', { cause });
  }
}

function broken(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `broken traffic entry: ${what}`);
}
