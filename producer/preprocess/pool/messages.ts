import type { ErrorCode } from '../../../shared/errors.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { ImageLimits } from '../image/decode.ts';
import type { ImagePipeline } from '../image/image-pipeline.ts';
import type { PreparedTexts } from '../text/prepare-texts.ts';
import type { TextPipeline } from '../text/text-pipeline.ts';

/** What the main thread asks of a preprocessing thread. */
export type ThreadTask =
  | {
      readonly kind: 'image';
      readonly bytes: Uint8Array;
      readonly pipeline: ImagePipeline;
      readonly limits: ImageLimits;
    }
  | {
      readonly kind: 'texts';
      readonly texts: readonly string[];
      /** The model version whose tokenizer it is. */
      readonly model: string;
      /** Changes whenever the model's files may have changed. */
      readonly generation: number;
      /** Half a megabyte, so it is only sent after a thread has said `unknown-tokenizer`. */
      readonly pipeline?: TextPipeline;
    };

/** Errors cross as data: a clone of an error loses its class and with it the code. */
export type ThreadReply =
  | { readonly status: 'image'; readonly tensor: Tensor }
  | ({ readonly status: 'texts' } & PreparedTexts)
  | { readonly status: 'unknown-tokenizer' }
  /** `reason` is for the log. */
  | { readonly status: 'failed'; readonly code: ErrorCode; readonly message: string; readonly reason: string };
