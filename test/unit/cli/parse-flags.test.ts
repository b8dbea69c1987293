import { describe, expect, it } from 'vitest';
import { parseFlags } from '../../../cli/flags/parse-flags.ts';

const refusal = (args: string[], environment: NodeJS.ProcessEnv = {}): string => {
  try {
    parseFlags('serve', args, environment);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('was accepted');
};

describe('parseFlags', () => {
  it('fills in every default', () => {
    const settings = parseFlags('serve', [], {});
    expect(settings).toMatchObject({ httpPort: 8000, metricsPort: 8002, httpAddress: '127.0.0.1', exitOnError: true });
    expect(settings.modelRepository).toEqual([]);
  });

  it('takes a value after "=" and after a space', () => {
    expect(parseFlags('serve', ['--http-port=9000'], {}).httpPort).toBe(9000);
    expect(parseFlags('serve', ['--http-port', '9000'], {}).httpPort).toBe(9000);
  });

  it('collects every value of a repeatable option, under its alias too', () => {
    const args = ['--model-repository=a', '--model-store', 'b', '--model-repository', 'c'];
    expect(parseFlags('serve', args, {}).modelRepository).toEqual(['a', 'b', 'c']);
  });

  it('reads the environment and lets the command line win', () => {
    const environment = { MILLRACE_HTTP_PORT: '9001', MILLRACE_MODEL_REPOSITORY: 'a:b' };
    expect(parseFlags('serve', [], environment)).toMatchObject({ httpPort: 9001, modelRepository: ['a', 'b'] });
    expect(parseFlags('serve', ['--http-port=9002'], environment).httpPort).toBe(9002);
    expect(parseFlags('worker', [], { REDIS_URL: 'redis://there:1' }).redis).toBe('redis://there:1');
  });

  it('reads booleans as Triton does, and a bare one as true', () => {
    for (const text of ['true', 'on', '1', 'TRUE']) {
      expect(parseFlags('serve', [`--allow-metrics=${text}`], {}).allowMetrics).toBe(true);
    }
    for (const text of ['false', 'off', '0', 'Off']) {
      expect(parseFlags('serve', [`--allow-metrics=${text}`], {}).allowMetrics).toBe(false);
    }
    expect(parseFlags('serve', ['--allow-metrics'], {}).allowMetrics).toBe(true);
  });

  it.each([
    [['--htp-port=1'], 'unknown option --htp-port; did you mean --http-port?'],
    [['--redis=x'], '--redis is not an option of millrace serve'],
    [['--http-port=many'], '--http-port expects a whole number from 0 to 65535, got "many"'],
    [['--http-port=70000'], 'got "70000"'],
    [['--http-port'], '--http-port needs a value: --http-port=PORT'],
    [['--allow-metrics=maybe'], '--allow-metrics expects true or false, got "maybe"'],
    [['--onnxruntime-api=d'], 'expects one of c, binding, got "d"'],
    [['--model-control-mode=all'], '--model-control-mode expects one of none, poll, explicit, got "all"'],
    [['stray'], 'unexpected argument "stray"'],
  ])('refuses %j', (args, text) => {
    expect(refusal(args)).toContain(text);
  });

  it('names the environment variable that is wrong', () => {
    expect(refusal([], { MILLRACE_HTTP_PORT: 'x' })).toContain('MILLRACE_HTTP_PORT expects a whole number');
  });
});
