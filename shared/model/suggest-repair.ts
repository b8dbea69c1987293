import { clone } from '@bufbuild/protobuf';
import { type ModelConfig, ModelConfigSchema } from '../proto/generated/model_config_pb.ts';
import type { Graph } from './complete-config.ts';
import { type Devices, NO_GPUS } from './devices.ts';
import { validateModelConfig } from './validate-config.ts';
import { findMisfits, type Misfit } from './verify-config.ts';

/**
 * The misfits of a config, each with the smallest change that repairs it: where `max_batch_size` alone makes the whole
 * config fit, that is the fix of all of them. The config has been completed and normalised.
 */
export function findRepairs(config: ModelConfig, graph: Graph, devices: Devices = NO_GPUS): Misfit[] {
  const misfits = findMisfits(config, graph);
  if (!misfits.some(({ shapes }) => shapes)) return misfits;
  const other = config.maxBatchSize > 0 ? 0 : 1;
  const changed = clone(ModelConfigSchema, config);
  changed.maxBatchSize = other;
  const fitsThen = findMisfits(changed, graph).length === 0 && validateModelConfig(changed, devices).length === 0;
  if (!fitsThen) return misfits;
  const fix = other === 0 ? 'set max_batch_size: 0' : 'set max_batch_size: 1, or more';
  return misfits.map((misfit) => ({ ...misfit, fix }));
}
