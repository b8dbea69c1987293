import { MillraceError } from './millrace-error.ts';

/**
 * The data of server-sent events, in order (https://html.spec.whatwg.org/multipage/server-sent-events.html). Comments,
 * names and ids are left out.
 * @param silenceMs how long the stream may say nothing at all, in ms
 * @throws MillraceError when the stream breaks, or is silent for longer
 */
export async function* readEvents(
  stream: ReadableStream<Uint8Array>,
  silenceMs = Infinity,
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let rest = '';
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await readWithin(reader, silenceMs);
      if (done) return; // an event that was not ended by an empty line is none
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (line.startsWith('data:')) data.push(line.slice(line.startsWith('data: ') ? 6 : 5));
        if (line !== '' || data.length === 0) continue;
        yield data.join('\n');
        data = [];
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it has failed, or is over
  }
}

async function readWithin(reader: ReadableStreamDefaultReader<Uint8Array>, silenceMs: number) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    if (silenceMs === Infinity) return;
    timer = setTimeout(() => reject(new MillraceError(`the server was silent for ${silenceMs} ms`)), silenceMs);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (error) {
    if (error instanceof MillraceError) throw error;
    throw new MillraceError('the stream of events broke', 0, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}
