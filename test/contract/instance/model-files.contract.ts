import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { f32, f32Of } from '../../support/onnx/data.ts';
import { writeModel } from '../../support/onnx/model.ts';
import { errorOf, expectError } from './errors.ts';
import { fp32 } from './tensors.ts';
import { loadOptions } from '../../support/load-options.ts';
import type { Workbench } from './workbench.ts';
import * as graphs from './graphs.ts';

/** Model files, good and bad. */
export function describeModelFiles({ abilities, pathOf, backend, folder }: Workbench): void {
  describe('model files', () => {
    test('names, datatypes, shapes and names of dimensions are read', async () => {
      const loaded = await backend().load(loadOptions(pathOf('fixed1')));
      expect(loaded.inputs).toEqual([
        { name: 'x', datatype: 'FP32', typeName: 'tensor(float)', shape: [-1, 4], symbols: ['batch', ''] },
      ]);
      expect(loaded.outputs).toMatchObject([{ name: 'y', shape: [1, 4] }]);
      await loaded.close();
    });

    test.runIf(!abilities.carriesBf16)(
      'a model of a type that cannot be carried is refused with the reason',
      async () => {
        await expectError(
          backend().load(loadOptions(pathOf('id_bf16'))),
          'INVALID_ARGUMENT',
          /tensor\(bfloat16\).* cannot carry/,
        );
      },
    );

    test.each([
      ['garbage', Buffer.from('this is not a model'), /protobuf parsing failed/i],
      ['an empty file', Buffer.alloc(0), /does not have a graph|protobuf parsing failed/i],
      ['no file', undefined, /doesn't exist/],
    ])('%s is an error that names no path, every time', async (name, content, message) => {
      const path = join(folder(), 'broken', name, 'model.onnx');
      mkdirSync(join(folder(), 'broken', name), { recursive: true });
      if (content) writeFileSync(path, content);
      const first = await errorOf(backend().load(loadOptions(path)));
      const second = await errorOf(backend().load(loadOptions(path)));
      expect(first).toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringMatching(message) as string });
      expect(first.message).not.toContain(folder());
      expect(second.message).toBe(first.message);
    });

    test.each(['../secret.bin', '../../secret.bin', '/etc/hostname', 'link.bin', 'missing.bin', 'linked/secret.bin'])(
      'external data at %s is refused',
      async (location) => {
        const path = externalModel(location);
        const error = await errorOf(backend().load(loadOptions(path)));
        expect(error.code).toBe('INVALID_ARGUMENT');
        expect(error.message).not.toContain(folder());
        expect(error.message).not.toContain('/etc');
      },
    );

    test('external data beside the model is read', async () => {
      const loaded = await backend().load(loadOptions(externalModel('weights.bin')));
      const instance = await loaded.createInstance();
      expect(f32Of((await instance.run([fp32('x', [1, 2], 1, 2)], ['y']).result)[0]!.data)).toEqual([41, 42]);
      await instance.close();
      await loaded.close();
    });

    function externalModel(location: string): string {
      const root = mkdtempSync(join(folder(), 'external-'));
      const model = join(root, '1');
      writeModel(join(model, 'model.onnx'), graphs.withExternalData(location));
      writeFileSync(join(root, 'secret.bin'), f32(40, 40));
      writeFileSync(join(folder(), 'secret.bin'), f32(40, 40));
      writeFileSync(join(model, 'weights.bin'), f32(40, 40));
      symlinkSync(join(root, 'secret.bin'), join(model, 'link.bin'));
      symlinkSync(root, join(model, 'linked'));
      return join(model, 'model.onnx');
    }
  });
}
