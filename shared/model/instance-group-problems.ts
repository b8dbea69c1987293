import {
  type ModelConfig,
  type ModelInstanceGroup,
  ModelInstanceGroup_Kind,
  type ModelRateLimiter,
} from '../proto/generated/model_config_pb.ts';
import { formatDims } from './dims.ts';

/** More would not be a pool but a mistake. */
const MAX_INSTANCES = 1024;

/** What is wrong with the `instance_group` of a normalised config. */
export function findInstanceGroupProblems({ instanceGroup: groups }: ModelConfig): string[] {
  const problems = groups.flatMap((group) => {
    return problemsOf(group).map((problem) => `instance_group "${group.name}": ${problem}`);
  });
  if (groups.length > 0 && groups.every(({ passive }) => passive)) {
    problems.push('instance_group: expected a group that is not passive, as nothing would run; remove passive: true');
  }
  return problems;
}

function problemsOf({ count, profile, gpus, kind, rateLimiter }: ModelInstanceGroup): string[] {
  const problems: string[] = [];
  if (count > MAX_INSTANCES) problems.push(`expected a count up to ${MAX_INSTANCES}, got ${count}`);
  if (profile.length > 0) problems.push('profile is for TensorRT models only');
  const takesGpus = kind === ModelInstanceGroup_Kind.GPU || kind === ModelInstanceGroup_Kind.AUTO;
  if (gpus.length > 0 && !takesGpus) {
    const given = kind === ModelInstanceGroup_Kind.MODEL ? 'KIND_MODEL' : 'KIND_CPU (or KIND_AUTO without a GPU)';
    problems.push(`gpus ${formatDims(gpus)} do not go with ${given}`);
  }
  if (rateLimiter) problems.push(...limiterProblems(rateLimiter).map((problem) => `rate_limiter: ${problem}`));
  return problems;
}

function limiterProblems({ resources }: ModelRateLimiter): string[] {
  const problems: string[] = [];
  const seen = new Set<string>();
  for (const [index, { name, count }] of resources.entries()) {
    if (name === '') problems.push(`resources ${index}: name is missing`);
    else if (seen.has(name)) problems.push(`resource "${name}" is listed twice`);
    else if (count < 1) problems.push(`resource "${name}": expected a count from 1 up, got ${count}`);
    seen.add(name);
  }
  return problems;
}
