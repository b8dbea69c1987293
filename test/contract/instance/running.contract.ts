import { describe, expect, test } from 'vitest';
import { f32Of, i64Of } from '../../support/onnx/data.ts';
import { errorOf, expectError } from './errors.ts';
import { fp32, int64 } from './tensors.ts';
import { loadOptions } from '../../support/load-options.ts';
import type { Workbench } from './workbench.ts';

/** Runs beside each other, and their ends. */
export function describeRunning({ abilities, load, instanceOf, pathOf, backend }: Workbench): void {
  describe('side by side', () => {
    test('instances of one model run at once and never mix their data', async () => {
      const loaded = await load('rowsum');
      const instances = await Promise.all(Array.from({ length: 4 }, () => loaded.createInstance()));
      await Promise.all(
        instances.map(async (instance, caller) => {
          for (let i = 0; i < 50; i++) {
            const rows = 1 + (i % 3);
            const values = Array.from({ length: rows * 4 }, (_, n) => caller * 1000 + i + Math.floor(n / 4));
            const [y] = await instance.run([fp32('x', [rows, 4], ...values)], ['y']).result;
            expect(f32Of(y!.data)).toEqual(Array.from({ length: rows }, (_, row) => 4 * (caller * 1000 + i + row)));
          }
        }),
      );
      await Promise.all(instances.map((instance) => instance.close()));
    });

    test('a run that nothing is in hand beside gives the same, and so do its errors', async () => {
      const instance = await instanceOf('rowsum');
      for (let run = 0; run < 20; run++) {
        const [y] = await instance.run([fp32('x', [1, 4], run, 1, 2, 3)], ['y'], true).result;
        expect(f32Of(y!.data)).toEqual([run + 6]);
        const wrong = instance.run([fp32('unknown', [1, 4], 0, 0, 0, 0)], ['y'], true);
        await expectError(wrong.result, 'INVALID_ARGUMENT', /unknown/);
        const stopped = instance.run([fp32('x', [1, 4], 1, 1, 1, 1)], ['y'], true);
        stopped.stop();
        await stopped.result.catch((error: unknown) => expect(error).toMatchObject({ code: 'CANCELLED' }));
      }
    });

    test('a run that nothing is in hand beside and that fails in the model fails alone', async () => {
      const instance = await instanceOf('div_int');
      for (let run = 0; run < 10; run++) {
        const [y] = await instance.run([int64('x', [1, 1], 3)], ['y'], true).result;
        expect(i64Of(y!.data)).toEqual([103n]);
        expect(await errorOf(instance.run([int64('x', [1, 1], 99)], ['y'], true).result)).toMatchObject({
          message: expect.stringMatching(/99/) as unknown,
        });
      }
    });

    test('the event loop goes on during a long run', async () => {
      const instance = await instanceOf('slow');
      let ticks = 0;
      const timer = setInterval(() => ticks++, 1);
      await instance.run([int64('x', [1, 1], 4)], ['y']).result;
      clearInterval(timer);
      expect(ticks).toBeGreaterThan(1);
    });

    test.runIf(abilities.stopsRuns)('a long run ends when it is stopped, and the next run is good', async () => {
      const instance = await instanceOf('slow');
      for (const whenStopped of ['at once', 'under way']) {
        const run = instance.run([int64('x', [1, 1], 1_000_000)], ['y']);
        if (whenStopped === 'under way') await new Promise((resolve) => setTimeout(resolve, 20));
        run.stop();
        run.stop();
        await expectError(run.result, 'CANCELLED', /stopped/);
        const [y] = await instance.run([int64('x', [1, 1], 1)], ['y']).result;
        expect(i64Of(y!.data)).toEqual([1n]);
      }
    });

    test.runIf(!abilities.stopsRuns)('a run that cannot be stopped goes on to its end', async () => {
      const instance = await instanceOf('slow');
      const run = instance.run([int64('x', [1, 1], 2)], ['y']);
      run.stop();
      expect(i64Of((await run.result)[0]!.data)).toEqual([2n]);
    });

    test('stopping a run that is over does not touch the next', async () => {
      const instance = await instanceOf('slow');
      const first = instance.run([int64('x', [1, 1], 0)], ['y']);
      await first.result;
      const second = instance.run([int64('x', [1, 1], 1)], ['y']);
      first.stop();
      expect(i64Of((await second.result)[0]!.data)).toEqual([1n]);
    });

    test('closing waits for the run under way, which is answered', async () => {
      const loaded = await backend().load(loadOptions(pathOf('slow')));
      const instance = await loaded.createInstance();
      const order: string[] = [];
      const run = instance.run([int64('x', [1, 1], 2)], ['y']).result.then((outputs) => {
        order.push('answered');
        return outputs;
      });
      const closed = instance.close().then(() => order.push('closed'));
      const refused = errorOf(instance.run([int64('x', [1, 1], 1)], ['y']).result);
      expect(i64Of((await run)[0]!.data)).toEqual([2n]);
      expect((await refused).message).toMatch(/closed/);
      await closed;
      expect(order).toEqual(['answered', 'closed']);
      await instance.close();
      await loaded.close();
      await loaded.close();
    });

    test('a model can be loaded and closed again and again', async () => {
      for (let i = 0; i < 5; i++) {
        const loaded = await backend().load(loadOptions(pathOf('mlp')));
        const instances = [await loaded.createInstance(), await loaded.createInstance()];
        const input = fp32('x', [1, 32], ...Array.from({ length: 32 }, (_, n) => n));
        const answers = await Promise.all(instances.map((instance) => instance.run([input], ['y']).result));
        expect(Buffer.compare(answers[0]![0]!.data, answers[1]![0]!.data)).toBe(0);
        for (const instance of instances) await instance.close();
        await loaded.close();
      }
    });
  });
}
