import { type ConfigField, type FieldStep, findConfigField } from './config-fields.ts';

/**
 * The field of a config's text that a problem is about, found by the path that the problem's text begins with (`input
 * "a": dims …`, `dynamic_batching.priority_levels …`). Where the very field is not written down, the nearest one around it;
 * undefined where nothing of it is.
 */
export function fieldOfProblem(fields: readonly ConfigField[], problem: string): ConfigField | undefined {
  for (const path of pathsOf(problem)) {
    const field = findConfigField(fields, path);
    if (field) return field;
  }
  return undefined;
}

const WITH_NAME = /^(input|output|instance_group|parameter|model_warmup) "([^"]*)"(?:: (\S+))?/;

/** Where to look, first choice first. */
function pathsOf(problem: string): FieldStep[][] {
  const [whole, name = '', entry = '', rest = ''] = WITH_NAME.exec(problem) ?? [];
  if (whole !== undefined) {
    if (name === 'parameter') return [[{ name: 'parameters', entry }, 'value', 'string_value']];
    const byName = [{ name, entry }, ...plainPath(rest)];
    // Groups without a name of their own have one that ends in their place.
    const place = name === 'instance_group' ? /_(\d+)$/.exec(entry)?.[1] : undefined;
    return place === undefined ? [byName] : [byName, [{ name, entry: Number(place) }, ...plainPath(rest)]];
  }
  const step = /^step (\d+)\b/.exec(problem)?.[1];
  if (step !== undefined) return [['ensemble_scheduling', { name: 'step', entry: Number(step) - 1 }]];
  const numbered = /^(input|output) (\d+): (\S+)/.exec(problem);
  if (numbered) return [[{ name: numbered[1] ?? '', entry: Number(numbered[2]) }, ...plainPath(numbered[3] ?? '')]];
  return [plainPath(/^\S+/.exec(problem)?.[0] ?? '')];
}

/** `a.b[0].c:` as steps. Words of a sentence that are no fields lead nowhere, which does no harm. */
function plainPath(path: string): FieldStep[] {
  return path
    .replace(/[:,]$/, '')
    .split('.')
    .filter((part) => part !== '')
    .map((part) => {
      const indexed = /^(\w+)\[(.*)\]$/.exec(part);
      if (!indexed) return part;
      const [, name = '', entry = ''] = indexed;
      return { name, entry: /^\d+$/.test(entry) ? Number(entry) : entry };
    });
}
