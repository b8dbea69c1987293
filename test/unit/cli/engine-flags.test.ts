import { describe, expect, it } from 'vitest';
import { parseBackendConfig } from '../../../cli/backend-config.ts';
import { parseMetricsConfig } from '../../../cli/metrics-config.ts';
import { parseRateLimits } from '../../../cli/rate-limits.ts';

describe('--rate-limit', () => {
  it('is off without execution_count', () => {
    expect(parseRateLimits('off', [])).toBeUndefined();
  });

  it('takes resources for the device, or for any', () => {
    expect(parseRateLimits('execution_count', [])).toEqual(new Map());
    expect(parseRateLimits('execution_count', ['R1:10', 'R2:5:0', 'R2:8'])).toEqual(
      new Map([
        ['R1', 10],
        ['R2', 8],
      ]),
    );
  });

  it.each(['R', 'R:', ':1', 'R:x', 'R:-1', 'R:1:', 'R:1:0:0'])('refuses %j', (text) => {
    expect(() => parseRateLimits('execution_count', [text])).toThrow(
      `expects NAME:COUNT or NAME:COUNT:0, got "${text}"`,
    );
  });

  it('refuses a device that runs nothing, and resources without the mode', () => {
    expect(() => parseRateLimits('execution_count', ['R:1:1'])).toThrow('the CPU, which is device 0, got "R:1:1"');
    expect(() => parseRateLimits('off', ['R:1'])).toThrow('goes with --rate-limit=execution_count');
  });
});

describe('--backend-config', () => {
  it('says nothing by default', () => {
    expect(parseBackendConfig([])).toEqual({ defaultMaxBatchSize: undefined, globalThreads: undefined });
  });

  it('takes settings of onnxruntime and of every backend, the last of each', () => {
    expect(parseBackendConfig(['onnxruntime,default-max-batch-size=16', ',default-max-batch-size=8'])).toMatchObject({
      defaultMaxBatchSize: 8,
    });
    expect(parseBackendConfig(['default-max-batch-size=0'])).toMatchObject({ defaultMaxBatchSize: 0 });
    expect(parseBackendConfig(['onnxruntime,enable-global-threadpool=1'])).toMatchObject({
      globalThreads: { intraOp: 0, interOp: 0 },
    });
    expect(
      parseBackendConfig([
        'onnxruntime,enable-global-threadpool=true',
        'onnxruntime,intra_op_thread_count=4',
        'onnxruntime,inter_op_thread_count=2',
      ]),
    ).toMatchObject({ globalThreads: { intraOp: 4, interOp: 2 } });
  });

  it.each([
    ['onnxruntime', 'expected onnxruntime,KEY=VALUE, got "onnxruntime"'],
    ['tensorflow,version=2', 'backend "tensorflow" is not supported'],
    ['onnxruntime,version=2', '"version" is not supported; supported are default-max-batch-size'],
    ['onnxruntime,default-max-batch-size=many', 'expects a whole number from 0 to 2147483647, got "many"'],
    ['onnxruntime,enable-global-threadpool=yes', 'expects 0 or 1, got "yes"'],
    ['onnxruntime,intra_op_thread_count=4', 'thread counts go with enable-global-threadpool=1'],
  ])('refuses %s', (text, problem) => {
    expect(() => parseBackendConfig([text])).toThrow(problem);
  });
});

describe('--metrics-config', () => {
  it('shows histograms when asked', () => {
    expect(parseMetricsConfig([])).toEqual({ histogramLatencies: false });
    expect(parseMetricsConfig(['counter_latencies=true', 'histogram_latencies=true'])).toEqual({
      histogramLatencies: true,
    });
  });

  it.each([
    ['summary_latencies=true', 'summary_latencies=true is not supported'],
    ['counter_latencies=false', 'counter_latencies=false is not supported'],
    ['histogram_latencies', 'got "histogram_latencies"'],
    ['buckets=true', 'expected one of counter_latencies, histogram_latencies, summary_latencies'],
  ])('refuses %s', (text, problem) => {
    expect(() => parseMetricsConfig([text])).toThrow(problem);
  });
});
