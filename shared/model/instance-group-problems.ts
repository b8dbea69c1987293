import {
  type ModelConfig,
  type ModelInstanceGroup,
  ModelInstanceGroup_Kind,
  type ModelRateLimiter,
} from '../proto/generated/model_config_pb.ts';
import { type Devices, NO_GPUS } from './devices.ts';
import { formatDims } from './dims.ts';

/** More would not be a pool but a mistake. */
const MAX_INSTANCES = 1024;

/** What is wrong with the `instance_group` of a normalised config. */
export function findInstanceGroupProblems(
  { instanceGroup: groups }: ModelConfig,
  devices: Devices = NO_GPUS,
): string[] {
  const problems = groups.flatMap((group) => {
    return problemsOf(group, devices).map((problem) => `instance_group "${group.name}": ${problem}`);
  });
  if (groups.length > 0 && groups.every(({ passive }) => passive)) {
    problems.push('instance_group: expected a group that is not passive, as nothing would run; remove passive: true');
  }
  return problems;
}

function problemsOf(group: ModelInstanceGroup, devices: Devices): string[] {
  const { count, profile, gpus, kind, rateLimiter } = group;
  const problems: string[] = [];
  if (count > MAX_INSTANCES) problems.push(`expected a count up to ${MAX_INSTANCES}, got ${count}`);
  if (profile.length > 0) problems.push('profile is for TensorRT models only');
  const takesGpus = kind === ModelInstanceGroup_Kind.GPU || kind === ModelInstanceGroup_Kind.AUTO;
  if (gpus.length > 0 && !takesGpus) {
    const given = kind === ModelInstanceGroup_Kind.MODEL ? 'KIND_MODEL' : 'KIND_CPU (or KIND_AUTO without a GPU)';
    problems.push(`gpus ${formatDims(gpus)} do not go with ${given}`);
  }
  if (kind === ModelInstanceGroup_Kind.GPU) problems.push(...gpuProblems(gpus, devices));
  if (rateLimiter) problems.push(...limiterProblems(rateLimiter).map((problem) => `rate_limiter: ${problem}`));
  return problems;
}

/** Where no GPU works at all, that is said of the kind. */
function gpuProblems(gpus: readonly number[], { gpus: working, reason }: Devices): string[] {
  if (working.length === 0) return [];
  const missing = gpus.filter((gpu) => !working.includes(gpu));
  const repeated = gpus.some((gpu, index) => gpus.indexOf(gpu) !== index);
  const problems = repeated ? [`gpus ${formatDims(gpus)}: a GPU is listed twice`] : [];
  if (missing.length === 0) return problems;
  const why = reason === '' ? '' : ` (${reason})`;
  const which = missing.length === 1 ? `GPU ${missing[0] ?? ''} does` : `GPUs ${missing.join(', ')} do`;
  return [
    ...problems,
    `gpus ${formatDims(gpus)}: ${which} not exist or not work; working is ${working.join(', ')}${why}`,
  ];
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
