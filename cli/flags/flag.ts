/** One command line option. The name is Triton's where Triton has it. */
export interface Flag {
  readonly name: string;
  /** Other names that existing start commands use. */
  readonly aliases?: readonly string[];
  readonly type: 'string' | 'integer' | 'boolean';
  /** May be given several times; every value counts. */
  readonly repeatable?: true;
  /** What parts several values in the environment; the platform's path delimiter unless given. */
  readonly separator?: string;
  /** What the value stands for in `--help`, with its unit. */
  readonly value: string;
  readonly default: string | number | boolean | undefined;
  readonly min?: number;
  readonly max?: number;
  readonly choices?: readonly string[];
  /** Besides MILLRACE_<NAME>: an environment variable that people already have. */
  readonly env?: string;
  /** Says something about one call only, so no environment variable sets it. */
  readonly commandLineOnly?: true;
  readonly help: string;
}

/** `--http-port` is MILLRACE_HTTP_PORT in the environment. */
export function environmentName(flag: Flag): string {
  return `MILLRACE_${flag.name.toUpperCase().replaceAll('-', '_')}`;
}
