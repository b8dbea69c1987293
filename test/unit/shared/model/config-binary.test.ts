import { equals } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { decodeModelConfig, encodeModelConfig } from '../../../../shared/model/config-binary.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { ModelConfigSchema } from '../../../../shared/proto/generated/model_config_pb.ts';

describe('the binary form of a config', () => {
  it('holds the whole config', () => {
    const config = parseModelConfig(
      'name: "m" max_batch_size: 4 dynamic_batching { } input { name: "x" dims: [ -1, 3 ] reshape { } }',
      'config.pbtxt',
    );
    expect(equals(ModelConfigSchema, decodeModelConfig(encodeModelConfig(config)), config)).toBe(true);
  });

  it('is refused when it is none', () => {
    expect(() => decodeModelConfig(new Uint8Array([255, 255, 255]))).toThrow(
      'expected an encoded model config, got 3 bytes that are none',
    );
  });
});
