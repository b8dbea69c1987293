const COLOURS = { red: 31, green: 32, yellow: 33, dim: 2, bold: 1 } as const;

export type Colour = keyof typeof COLOURS;

/** Where a command writes what was asked for. */
export interface Output {
  /** JSON was asked for: nothing but one JSON value may be written. */
  readonly json: boolean;
  /** Colours a text where a person reads it. */
  paint(colour: Colour, text: string): string;
  line(text: string): void;
  value(value: unknown): void;
}

/** Standard output. Colours are for terminals alone, and not where NO_COLOR is set (no-color.org). */
export function createOutput(json: boolean): Output {
  // Whoever reads may stop in the middle, as `head` does.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  const coloured = !json && process.stdout.isTTY && (process.env['NO_COLOR'] ?? '') === '';
  return {
    json,
    paint: (colour, text) => (coloured ? `\u001b[${COLOURS[colour]}m${text}\u001b[0m` : text),
    line: (text) => void process.stdout.write(`${text}\n`),
    value: (value) => void process.stdout.write(`${JSON.stringify(value, null, 2)}\n`),
  };
}
