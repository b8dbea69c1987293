import type { GpuPulse } from '../../shared/directory/worker-pulse.ts';
import type { ModelCatalog } from '../../shared/infer/ports.ts';
import { ModelInstanceGroup_Kind as Kind } from '../../shared/proto/generated/model_config_pb.ts';
import type { GpuReading } from '../../shared/runtime/gpu-readings.ts';

type Catalog = Pick<ModelCatalog, 'list' | 'resolve'>;

/**
 * The GPUs that loaded models run on, with what nvidia-smi tells of them.
 * @param visible CUDA_VISIBLE_DEVICES: models count from 0 in what it lists, the tool counts all of the machine
 */
export function gpusInUse(
  catalog: Catalog,
  readings: readonly GpuReading[],
  visible = process.env['CUDA_VISIBLE_DEVICES'],
): GpuPulse[] {
  return [...numbersOf(catalog)]
    .sort((a, b) => a - b)
    .map((index) => {
      const { uuid, name = '', totalBytes, usedBytes, utilization } = readingOf(index, readings, visible) ?? {};
      return { index, uuid, name, totalBytes, usedBytes, utilization };
    });
}

function numbersOf(catalog: Catalog): Set<number> {
  const numbers = new Set<number>();
  for (const { name, version, state } of catalog.list()) {
    if (state !== 'READY') continue;
    for (const { kind, gpus } of catalog.resolve(name, version ?? '').config.instanceGroup) {
      if (kind === Kind.GPU) for (const gpu of gpus) numbers.add(gpu);
    }
  }
  return numbers;
}

/** CUDA takes numbers and the beginnings of uuids. */
function readingOf(
  index: number,
  readings: readonly GpuReading[],
  visible: string | undefined,
): GpuReading | undefined {
  if (visible === undefined) return readings.find((reading) => reading.index === index);
  const entry = visible.split(',')[index]?.trim();
  if (entry === undefined || entry === '') return undefined;
  const fits = ({ index: number, uuid }: GpuReading) =>
    /^\d+$/.test(entry) ? number === Number(entry) : uuid.startsWith(entry);
  return readings.find(fits);
}
