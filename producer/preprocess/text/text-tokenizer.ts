import * as library from '@huggingface/tokenizers';
import type { TextPipeline } from './text-pipeline.ts';

interface LibraryTokenizer {
  encode(text: string, options?: EncodeOptions): { ids: number[]; token_type_ids?: number[] };
}

interface EncodeOptions {
  readonly add_special_tokens?: boolean;
  readonly return_token_type_ids?: boolean;
}

// The package's type files import each other without extensions, which module resolution "nodenext" cannot follow.
const { Tokenizer } = library as unknown as {
  Tokenizer: new (tokenizer: object, config: object) => LibraryTokenizer;
};

/** The tokens of one text, cut to what the model takes, not padded. */
export interface EncodedText {
  readonly ids: readonly number[];
  readonly typeIds: readonly number[];
}

/** Turns texts into token ids; truncation is ours, as the library has none. Costs some 50 ms and 10 MB to make. */
export class TextTokenizer {
  readonly #tokenizer: LibraryTokenizer;
  readonly #maxTokens: number;
  readonly #cutSide: 'left' | 'right';
  /** Special tokens that the tokenizer puts before and after every text. */
  readonly #before: number;
  readonly #after: number;

  constructor(pipeline: TextPipeline) {
    // The files were checked to be JSON objects when the pipeline was made; the library checks the rest.
    this.#tokenizer = new Tokenizer(
      JSON.parse(pipeline.tokenizerJson) as object,
      JSON.parse(pipeline.tokenizerConfigJson) as object,
    );
    this.#maxTokens = pipeline.maxTokens;
    this.#cutSide = pipeline.cutSide;
    const bare = this.#tokenizer.encode(PROBE, { add_special_tokens: false }).ids;
    const whole = this.#tokenizer.encode(PROBE).ids;
    const start = whole.findIndex((_, index) => bare.every((id, offset) => whole[index + offset] === id));
    this.#before = Math.max(0, start);
    this.#after = start < 0 ? 0 : whole.length - start - bare.length;
  }

  encode(text: string): EncodedText {
    const { ids, typeIds } = this.#encodeEnough(text);
    if (ids.length <= this.#maxTokens) return { ids, typeIds };
    return { ids: this.#cut(ids), typeIds: this.#cut(typeIds) };
  }

  /**
   * The tokens of the text, or of a part at the side that is kept. A megabyte of text takes seconds, and all but a few
   * hundred of its tokens would be thrown away. Where the part was cut its tokens may be others than those of the whole,
   * so it has to give twice as many as are kept.
   */
  #encodeEnough(text: string): EncodedText {
    const enough = 2 * this.#maxTokens + this.#before + this.#after;
    for (let length = LETTERS_PER_TOKEN * this.#maxTokens; length < text.length; length *= GROWTH) {
      const encoded = this.#encodeWhole(this.#cutSide === 'left' ? text.slice(-length) : text.slice(0, length));
      if (encoded.ids.length >= enough) return encoded;
    }
    return this.#encodeWhole(text);
  }

  #encodeWhole(text: string): EncodedText {
    const { ids, token_type_ids: typeIds = [] } = this.#tokenizer.encode(text, { return_token_type_ids: true });
    return { ids, typeIds };
  }

  /** Takes tokens of the text away and keeps the special ones at both ends. */
  #cut(values: readonly number[]): number[] {
    const end = values.length - this.#after;
    const kept = Math.max(0, this.#maxTokens - this.#before - this.#after);
    const from = this.#cutSide === 'left' ? end - kept : this.#before;
    return [...values.slice(0, this.#before), ...values.slice(from, from + kept), ...values.slice(end)];
  }
}

const PROBE = 'a';

/** Three times what a token of English has, so that the first part is mostly enough. */
const LETTERS_PER_TOKEN = 16;
const GROWTH = 4;
