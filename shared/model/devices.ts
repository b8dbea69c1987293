/** What models can run on beside the CPU, as whoever opens sessions has found it. */
export interface Devices {
  /** Numbers of the GPUs on which a session was tried and ran, ascending. */
  readonly gpus: readonly number[];
  /** GPU support is installed: that a model runs on the CPU all the same is worth a word. */
  readonly installed: boolean;
  /** Why a GPU does not work, with what to do; '' when all do. */
  readonly reason: string;
}

/** A machine on which nobody has installed GPU support. */
export const NO_GPUS: Devices = {
  gpus: [],
  installed: false,
  reason: 'the CUDA provider is not installed: run millrace gpu install',
};
