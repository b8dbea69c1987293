/** What is asked of nvidia-smi, in the order of a line of its answer. */
export const GPU_QUERY = 'uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,index,name';

/** One GPU at one moment. A value that the device does not tell is undefined. */
export interface GpuReading {
  readonly uuid: string;
  /** As nvidia-smi counts. */
  readonly index: number;
  readonly name: string;
  /** Share of the last sample period in which anything ran, from 0 to 1. */
  readonly utilization: number | undefined;
  readonly usedBytes: number | undefined;
  readonly totalBytes: number | undefined;
  readonly celsius: number | undefined;
  readonly watts: number | undefined;
}

const MIB = 1024 * 1024;

/** A line of nvidia-smi; undefined for one that is no reading, of which newer versions may print some. */
export function parseReading(line: string): GpuReading | undefined {
  const cells = line.split(',').map((cell) => cell.trim());
  const [uuid = '', utilization, used, total, celsius, watts, index = '', name, ...rest] = cells;
  if (!/^(?:GPU|MIG)-[\w-]+$/.test(uuid) || !/^\d+$/.test(index) || name === undefined) return undefined;
  if (rest.length > 0) return undefined;
  return {
    uuid,
    index: Number(index),
    name,
    utilization: times(utilization, 0.01),
    usedBytes: times(used, MIB),
    totalBytes: times(total, MIB),
    celsius: times(celsius, 1),
    watts: times(watts, 1),
  };
}

/** `[N/A]`, `[Not Supported]` and the like are no number. */
function times(text: string | undefined, factor: number): number | undefined {
  return text !== undefined && /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) * factor : undefined;
}
