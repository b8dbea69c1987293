import type { TextPipeline } from './text-pipeline.ts';
import { TextTokenizer } from './text-tokenizer.ts';

/** Tokenizers that one thread keeps; the one that was used longest ago goes first. */
const MAX_TOKENIZERS = 16;

export interface CachedTokenizer {
  readonly tokenizer: TextTokenizer;
  readonly pipeline: TextPipeline;
}

/** The tokenizers of one thread, one per model version. */
export class TokenizerCache {
  readonly #entries = new Map<string, CachedTokenizer & { readonly generation: number }>();

  /** The tokenizer of this generation of a model; made from `pipeline` when it is given; undefined when neither is there. */
  get(model: string, generation: number, pipeline: TextPipeline | undefined): CachedTokenizer | undefined {
    const known = this.#entries.get(model);
    if (known?.generation === generation) {
      this.#entries.delete(model);
      this.#entries.set(model, known);
      return known;
    }
    if (!pipeline) return undefined;
    this.#entries.delete(model);
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined && this.#entries.size >= MAX_TOKENIZERS) this.#entries.delete(oldest);
    // The JSON texts have done their work.
    const kept = { ...pipeline, tokenizerJson: '', tokenizerConfigJson: '' };
    const entry = { tokenizer: new TextTokenizer(pipeline), pipeline: kept, generation };
    this.#entries.set(model, entry);
    return entry;
  }
}
