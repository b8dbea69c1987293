import {
  type ModelConfig,
  type ModelInstanceGroup,
  ModelInstanceGroup_Kind,
} from '../../../shared/proto/generated/model_config_pb.ts';
import type { InstanceNeeds, RateLimiter } from '../execute/rate-limiter.ts';
import type { RunGate } from '../execute/run-slots.ts';
import type { LoadedModel, ModelInstance } from '../instance/instance.ts';

/** The copies of a model version that its `instance_group` asks for. */
export interface Instances {
  /** Those that requests run on; whoever schedules them closes them. */
  readonly active: readonly ModelInstance[];
  /** What each of them takes for a run, where runs are limited by instance. */
  readonly gates: ReadonlyMap<ModelInstance, RunGate> | undefined;
  /** Closes those that nothing runs on. The others are closed, or were given up. */
  release(): Promise<void>;
  /** Closes all, when nothing was scheduled yet. */
  closeAll(): Promise<void>;
}

/**
 * The config has been normalised and validated.
 * @param limiter undefined where runs are not limited by instance, and then `rate_limiter` means nothing
 * @throws InferError when one cannot be made or its resources are not there; none stays behind
 */
export async function createInstances(
  config: ModelConfig,
  loaded: LoadedModel,
  limiter: RateLimiter | undefined,
): Promise<Instances> {
  const active: ModelInstance[] = [];
  const passive: ModelInstance[] = [];
  const needs: InstanceNeeds[] = [];
  const close = async (instances: readonly ModelInstance[]): Promise<void> => {
    await Promise.all(instances.map((instance) => instance.close()));
  };
  try {
    for (const group of config.instanceGroup) {
      for (const gpu of placesOf(group)) {
        (group.passive ? passive : active).push(await loaded.createInstance(gpu));
        if (!group.passive) needs.push(needsOf(group));
      }
    }
    const limited = limiter?.add(config.name, needs);
    return {
      active,
      gates: limited && new Map(limited.gates.flatMap((gate, index) => entryOf(active[index], gate))),
      async release() {
        limited?.close();
        await close(passive);
      },
      async closeAll() {
        limited?.close();
        await close([...active, ...passive]);
      },
    };
  } catch (error) {
    await close([...active, ...passive]);
    throw error;
  }
}

/** Where its instances run, one entry each: as in Triton, `count` is that of each GPU. undefined stands for the CPU. */
function placesOf({ kind, gpus, count }: ModelInstanceGroup): (number | undefined)[] {
  const places = kind === ModelInstanceGroup_Kind.GPU ? gpus : [undefined];
  return places.flatMap((place) => Array.from({ length: count }, () => place));
}

function needsOf({ rateLimiter }: ModelInstanceGroup): InstanceNeeds {
  const resources = rateLimiter?.resources ?? [];
  return {
    resources: resources.map(({ name, global, count }) => ({ name, global, count })),
    priority: rateLimiter?.priority ?? 1,
  };
}

function entryOf(instance: ModelInstance | undefined, gate: RunGate): [ModelInstance, RunGate][] {
  return instance ? [[instance, gate]] : [];
}
