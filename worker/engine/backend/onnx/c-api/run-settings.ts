import { pointerFrom, type Api } from './api.ts';
import type { Pointer } from './functions.ts';
import { assertOk } from './status.ts';

const ARENA_SHRINKAGE = 'memory.enable_memory_arena_shrinkage';

/**
 * The run options of an instance.
 *
 * ONNX Runtime marks memory of a GPU's arena with the stream of the run that used it. A run that fails, or is stopped,
 * leaves its marks behind, and no later run gets that memory: a few such runs, and nothing fits any more until the
 * session is opened anew. An arena that shrinks gives back what nobody uses, whatever its mark, so the run after a
 * failed one shrinks it when it ends, well or not.
 */
export class RunSettings {
  readonly #api: Api;
  readonly #plain: Pointer;
  /** Undefined on the CPU, where memory has no marks. */
  readonly #shrinking: Pointer | undefined;
  #marked = false;

  /**
   * @param arenaShrinkage arenas that shrink after every run; '' for none
   * @throws OrtCallError
   */
  constructor(api: Api, arenaShrinkage: string, gpu: number | undefined) {
    this.#api = api;
    this.#plain = createRunOptions(api, arenaShrinkage);
    if (gpu !== undefined) this.#shrinking = createRunOptions(api, withArena(arenaShrinkage, `gpu:${gpu}`));
  }

  /** For the run that begins now or is under way. */
  get pointer(): Pointer {
    return this.#marked && this.#shrinking !== undefined ? this.#shrinking : this.#plain;
  }

  /**
   * The run that `pointer` was for is over.
   * @returns whether a failed one may have lacked memory that there is now
   */
  noteEnd(failed: boolean): boolean {
    const shrank = this.#marked;
    this.#marked = failed && !shrank && this.#shrinking !== undefined;
    return failed && shrank;
  }

  release(): void {
    const { ort } = this.#api;
    ort.ReleaseRunOptions(this.#plain);
    if (this.#shrinking !== undefined) ort.ReleaseRunOptions(this.#shrinking);
  }
}

function createRunOptions({ ort }: Api, arenas: string): Pointer {
  const options = pointerFrom(ort, (out) => ort.CreateRunOptions(out));
  if (arenas !== '') assertOk(ort, ort.AddRunConfigEntry(options, ARENA_SHRINKAGE, arenas));
  return options;
}

/** Arenas as ONNX Runtime lists them; it refuses one that is there twice. */
function withArena(arenas: string, arena: string): string {
  const others = arenas.split(';').filter((each) => each !== '' && each !== arena);
  return [...others, arena].join(';');
}
