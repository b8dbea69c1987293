import { createPreprocessor, type Preprocessor } from '../producer/preprocess/preprocessor.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import type { Settings } from './flags/catalogue.ts';

/** The preprocessing threads with the limits of the command line. */
export function preprocessorOf(settings: Settings<'serve'> | Settings<'producer'>, logger: Logger): Preprocessor {
  return createPreprocessor({
    threads: settings.preprocessThreads,
    imageLimits: { maxPixels: settings.maxImagePixels },
    logger,
  });
}
