import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { GpuRoom, SessionRoom } from '../../../../../../../worker/engine/backend/onnx/gpu/gpu-room.ts';
import { weightBytes } from '../../../../../../../worker/engine/backend/onnx/gpu/weight-bytes.ts';

const MB = 1e6;

describe('the room on a GPU', () => {
  it('is held until sessions are open, so that no two loads count on the same memory', () => {
    const room = new GpuRoom();
    const first = room.hold(0, 30 * MB, 2, 100 * MB);
    expect(() => room.hold(0, 50 * MB, 1, 100 * MB)).toThrow(
      'GPU 0 has no room for the model: the weights of the model take 50 MB, and 40 MB are free beside the models that are being loaded: no instance fits',
    );
    room.hold(1, 50 * MB, 2, 100 * MB); // another GPU
    first.took(30 * MB);
    const second = room.hold(0, 40 * MB, 1, 70 * MB);
    second.drop();
    second.drop();
    first.drop();
    room.hold(0, 70 * MB, 1, 70 * MB);
  });

  it.each([
    [1, '20 MB, and 19.9 MB are free: no instance fits'],
    [3, '20 MB, 3 instances of it take 60 MB, and 19.9 MB are free: no instance fits'],
  ])('refuses %i instances with what they need', (sessions, text) => {
    expect(() => new GpuRoom().hold(0, 20 * MB, sessions, 19.9 * MB)).toThrow(text);
  });

  it('says how many instances fit', () => {
    expect(() => new GpuRoom().hold(0, 10 * MB, 2, 19 * MB)).toThrow(/: 1 instance fits$/);
    expect(() => new GpuRoom().hold(0, 150 * MB, 4, 512 * MB)).toThrow(
      /take 600 MB, and 512 MB are free: 3 instances fit$/,
    );
    expect(() => new GpuRoom().hold(0, 10 * MB, 1, 9 * MB)).toThrow(
      expect.objectContaining({ code: 'RESOURCE_EXHAUSTED' }),
    );
  });
});

describe('the room for the sessions of a model', () => {
  function start(free: Record<number, number>) {
    const room = new GpuRoom();
    const sessions = new SessionRoom(10 * MB, (gpu, count) => room.hold(gpu, 10 * MB, count, (free[gpu] ?? 0) * MB));
    const heldBeside = (gpu: number, megabytes: number) =>
      room.hold(gpu, megabytes * MB, 1, (free[gpu] ?? 0) * MB).drop();
    return { sessions, heldBeside, free };
  }

  it('is given back session by session, also for one that could not be opened', async () => {
    const { sessions, heldBeside, free } = start({ 0: 20 });
    sessions.prepare({ 0: 2 });
    expect(() => heldBeside(0, 1)).toThrow('no room');
    await sessions.open(0, () => Promise.resolve());
    await expect(sessions.open(0, () => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
    heldBeside(0, 20);
    free[0] = 5;
    await expect(sessions.open(0, () => Promise.resolve())).rejects.toThrow('no room'); // one beyond those prepared
  });

  it('holds nothing where one of the GPUs has too little', () => {
    const { sessions, heldBeside } = start({ 0: 20, 1: 5 });
    expect(() => sessions.prepare({ 0: 2, 1: 1 })).toThrow('GPU 1 has no room');
    heldBeside(0, 20);
  });
});

describe('the bytes of weights', () => {
  it('are those of the model file and of the files that it names', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'millrace-weights-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const path = join(folder, 'model.onnx');
    await writeFile(path, 'graph with location weights.data in it');
    await writeFile(join(folder, 'weights.data'), Buffer.alloc(1000));
    await writeFile(join(folder, 'labels.txt'), Buffer.alloc(500));
    expect(await weightBytes(path)).toBe(1038);
  });
});
