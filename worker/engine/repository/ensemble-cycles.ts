import { InferError } from '../../../shared/errors.ts';

/** @throws InferError INVALID_ARGUMENT when an ensemble is, over any number of ensembles, a step of itself. */
export async function assertNoCycle(
  name: string,
  members: readonly string[],
  membersOf: (name: string) => Promise<readonly string[]>,
): Promise<void> {
  const seen = new Set<string>();
  const visit = async (path: readonly string[], steps: readonly string[]): Promise<void> => {
    for (const step of steps) {
      if (step === name) {
        const chain = [...path, step].map((model) => `"${model}"`).join(' -> ');
        throw new InferError('INVALID_ARGUMENT', `model "${name}": ensembles contain each other: ${chain}`);
      }
      if (seen.has(step)) continue;
      seen.add(step);
      await visit([...path, step], await membersOf(step));
    }
  };
  await visit([name], members);
}
