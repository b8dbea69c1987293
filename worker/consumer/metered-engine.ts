import type { ModelStats } from '../../shared/infer/model-stats.ts';
import type { ModelCatalog } from '../../shared/infer/ports.ts';
import type { ModelConfig } from '../../shared/proto/generated/model_config_pb.ts';
import type { MeteredEngine } from './speed-meter.ts';

/** An engine as its speed is measured. `stats` is absent where nothing is counted. */
export function meteredEngineOf(engine: {
  readonly catalog: ModelCatalog;
  stats?(): Iterable<ModelStats>;
}): MeteredEngine {
  const configOf = (model: string, version: string): ModelConfig | undefined => {
    try {
      return engine.catalog.resolve(model, version).config;
    } catch {
      return undefined; // it has just left
    }
  };
  return {
    stats: () => engine.stats?.() ?? [],
    slotsOf: (model, version) => {
      const config = configOf(model, version);
      return config ? instancesOf(config) : 1;
    },
    membersOf: (model, version) => {
      const choice = configOf(model, version)?.schedulingChoice;
      if (choice?.case !== 'ensembleScheduling') return [];
      return [...new Set(choice.value.step.map(({ modelName }) => modelName))];
    },
  };
}

/** How many runs of the model can be under way at one time. */
export function instancesOf({ instanceGroup }: ModelConfig): number {
  return instanceGroup.reduce((sum, { count, gpus }) => sum + count * Math.max(1, gpus.length), 0);
}
