import { InferError } from '../shared/errors.ts';

/**
 * What `--rate-limit` and `--rate-limit-resource` say: the resources there are, by name, or undefined where runs are not
 * limited. Without any resource there is of each what the hungriest instance takes.
 * @throws InferError INVALID_ARGUMENT
 */
export function parseRateLimits(
  mode: 'off' | 'execution_count',
  resources: readonly string[],
): ReadonlyMap<string, number> | undefined {
  if (mode === 'off') {
    if (resources.length === 0) return undefined;
    throw new InferError('INVALID_ARGUMENT', '--rate-limit-resource goes with --rate-limit=execution_count');
  }
  const limits = new Map<string, number>();
  for (const text of resources) {
    const { name, count } = parseResource(text);
    limits.set(name, Math.max(count, limits.get(name) ?? 0));
  }
  return limits;
}

function parseResource(text: string): { name: string; count: number } {
  const [, name = '', count = '', device = '0'] = /^([^:]+):(\d{1,9})(?::(\d{1,9}))?$/.exec(text) ?? [];
  if (name === '') {
    throw new InferError('INVALID_ARGUMENT', `--rate-limit-resource expects NAME:COUNT or NAME:COUNT:0, got "${text}"`);
  }
  if (Number(device) !== 0) {
    const where = 'instances run on the CPU, which is device 0';
    throw new InferError('INVALID_ARGUMENT', `--rate-limit-resource: ${where}, got "${text}"`);
  }
  return { name, count: Number(count) };
}
