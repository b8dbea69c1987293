import type { Logger } from '../../../shared/runtime/logger.ts';

interface Warning {
  /** '' when it is about none. */
  readonly model: string;
  readonly text: string;
}

/** Keeps the warnings that loading models gives, for a command that shows them itself. */
export class RecordingLogger implements Logger {
  #warnings: Warning[] = [];

  debug(): void {
    // What goes as planned is not shown.
  }

  info(): void {
    // As above.
  }

  warn(fields: object, event: string): void {
    const details = new Map(Object.entries(fields) as [string, unknown][]);
    const model = details.get('model');
    for (const name of ['model', 'version', 'err']) details.delete(name);
    const shown = [...details.values()].map(String).join(', ');
    const text = shown === '' ? event : `${event}: ${shown}`;
    this.#warnings.push({ model: typeof model === 'string' ? model : '', text });
  }

  error(): void {
    // The load rejects with the same.
  }

  /** The warnings about a model and those that were loaded with it, each once. Forgets all. */
  take(model: string): string[] {
    const taken = this.#warnings.filter((warning) => warning.model !== '');
    this.#warnings = [];
    return [...new Set(taken.map((warning) => (warning.model === model ? '' : `${warning.model}: `) + warning.text))];
  }

  /** The warnings about no model but the repository, each once. Forgets all. */
  takeGeneral(): string[] {
    const taken = this.#warnings.filter(({ model }) => model === '');
    this.#warnings = [];
    return [...new Set(taken.map(({ text }) => text))];
  }
}
