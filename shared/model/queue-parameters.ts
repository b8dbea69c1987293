import type { ModelConfig } from '../proto/generated/model_config_pb.ts';

/** What the `parameters` of a config say about how much of the model's work may be in hand at once, in the whole pool. */
export interface QueueParameters {
  /** 0 for no limit of its own. */
  readonly maxRequests: number;
  readonly maxRows: number;
  readonly maxBytes: number;
  /** Its part of the limits of the pool, beside those of the other models. */
  readonly weight: number;
}

const KEYS = {
  maxRequests: 'queue_max_requests',
  maxRows: 'queue_max_rows',
  maxBytes: 'queue_max_bytes',
  weight: 'queue_weight',
} as const satisfies Record<keyof QueueParameters, string>;

export const MAX_WEIGHT = 1000;

/** Those of a config that `findQueueParameterProblems` found nothing in. */
export function queueParametersOf(config: ModelConfig): QueueParameters {
  const numberOf = (key: string, preset: number) => Number(valueOf(config, key) ?? preset);
  return {
    maxRequests: numberOf(KEYS.maxRequests, 0),
    maxRows: numberOf(KEYS.maxRows, 0),
    maxBytes: numberOf(KEYS.maxBytes, 0),
    weight: numberOf(KEYS.weight, 1),
  };
}

/** What is wrong with the queue parameters of a config, one text each. */
export function findQueueParameterProblems(config: ModelConfig): string[] {
  return Object.values(KEYS).flatMap((key) => {
    const text = valueOf(config, key);
    const max = key === KEYS.weight ? MAX_WEIGHT : Number.MAX_SAFE_INTEGER;
    if (text === undefined || (/^[1-9]\d{0,15}$/.test(text) && Number(text) <= max)) return [];
    const expected = key === KEYS.weight ? `a whole number from 1 to ${MAX_WEIGHT}` : 'a whole number from 1 up';
    return [`parameter "${key}": expected ${expected}, got "${text}"`];
  });
}

function valueOf({ parameters }: ModelConfig, key: string): string | undefined {
  return Object.hasOwn(parameters, key) ? parameters[key]?.stringValue : undefined;
}
