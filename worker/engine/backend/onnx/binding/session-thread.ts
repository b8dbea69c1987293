import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { InferError } from '../../../../../shared/errors.ts';
import type { FromThread, SentOutput, SentTensor, ThreadOptions, ToThread } from './messages.ts';

/**
 * A thread that holds one session. `start`, then one `run` after the other, then `quit`. It is never terminated: ending
 * a thread that may be inside native code ends the whole process.
 */
export class SessionThread {
  readonly #worker: Worker;
  readonly #exited: Promise<unknown>;
  #waiting: { resolve: (answer: FromThread) => void; reject: (error: InferError) => void } | undefined;
  /** Why there will be no more answers. */
  #ended: InferError | undefined;

  private constructor(worker: Worker) {
    this.#worker = worker;
    this.#exited = once(worker, 'exit');
  }

  /** Starts a thread that loads a model; the first answer is `loaded` or `failed`, and after `failed` it ends by itself. */
  static async start(options: ThreadOptions): Promise<{ thread: SessionThread; answer: FromThread }> {
    // No flags of this process: a loader for TypeScript or a coverage tool has no business in there.
    const worker = new Worker(new URL('./session-thread.mjs', import.meta.url), { workerData: options, execArgv: [] });
    const thread = new SessionThread(worker);
    worker.on('message', (answer: FromThread) => thread.#answer(answer));
    worker.on('error', (error) => thread.#end(error));
    worker.on('exit', () => thread.#end(undefined));
    return { thread, answer: await thread.#nextAnswer() };
  }

  /** The memory of the inputs passes to the thread. */
  run(inputs: readonly SentTensor[], outputs: readonly SentOutput[]): Promise<FromThread> {
    const answer = this.#nextAnswer();
    this.#send(
      { type: 'run', inputs, outputs },
      inputs.map((tensor) => tensor.data.buffer as ArrayBuffer), // made by the caller for this message
    );
    return answer;
  }

  /** Lets the thread end after the run under way, and waits for it. */
  async quit(): Promise<void> {
    if (!this.#ended) this.#send({ type: 'quit' });
    await this.#exited;
  }

  #send(message: ToThread, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  #nextAnswer(): Promise<FromThread> {
    return new Promise((resolve, reject) => {
      if (this.#ended) reject(this.#ended);
      else this.#waiting = { resolve, reject };
    });
  }

  #answer(answer: FromThread): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(answer);
  }

  #end(cause: unknown): void {
    this.#ended ??= new InferError('INTERNAL', 'the thread of the session has ended', { cause });
    this.#waiting?.reject(this.#ended);
    this.#waiting = undefined;
  }
}
