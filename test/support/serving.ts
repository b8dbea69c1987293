import { COMMAND_FLAGS, FLAGS, type CommandName, type FlagKey } from '../../cli/flags/catalogue.ts';
import { type MillraceProcess, startMillrace } from './process.ts';
import { startRedis, until } from './redis.ts';

/** Both ways to serve the same models: what a client sees must not differ. */
export type Serving = 'serve' | 'pool';

export interface Server {
  /** Where HTTP is served, without a slash at the end. */
  readonly url: string;
  /** host:port of gRPC. */
  readonly grpcAddress: string;
  readonly metricsUrl: string;
  stop(): Promise<void>;
}

/**
 * `serve`, or a producer with workers on a Redis of its own, and waits until it is ready. Each process gets those of the
 * options that it knows.
 */
export async function startServer(serving: Serving, options: readonly string[], workers = 2): Promise<Server> {
  if (serving === 'serve') {
    const serve = await startMillrace(['serve', ...options]);
    return {
      ...addresses(serve),
      async stop() {
        await serve.stop();
      },
    };
  }
  const redis = await startRedis();
  const env = { REDIS_URL: redis.url };
  const [producer, ...pool] = await Promise.all([
    startMillrace(['producer', ...optionsOf('producer', options)], { env }),
    ...Array.from({ length: workers }, () => startMillrace(['worker', ...optionsOf('worker', options)], { env })),
  ]);
  await until('the producer is ready', async () => (await fetch(`${producer.url}/v2/health/ready`)).ok);
  return {
    ...addresses(producer),
    async stop() {
      await Promise.all([producer, ...pool].map((process) => process.stop()));
      await redis.stop();
    },
  };
}

function addresses({ url, grpcAddress, metricsUrl }: MillraceProcess) {
  return { url, grpcAddress, metricsUrl };
}

function optionsOf(command: CommandName, options: readonly string[]): string[] {
  const keys: readonly FlagKey[] = COMMAND_FLAGS[command];
  return options.filter((option) => keys.some((key) => option.startsWith(`--${FLAGS[key].name}=`)));
}
