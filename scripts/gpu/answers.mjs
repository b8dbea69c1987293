// What the measurements say to the questions that only a GPU can answer, and to the goals, in a line each.

/** By question. One that was not answered says why. */
export function answers({ card, packages, parts }) {
  const { matrix, vision, serve, queue, memory, fallback, texts, processes, nvrtc, smi } = parts;
  return {
    'runs, right and at what speed; memory given back': answer([matrix, memory], () => [
      ...[matrix, vision].filter((part) => part?.batches).map(agreementText),
      `first session ${memory.firstOpenMs} ms, second ${memory.secondOpenMs} ms`,
      `a process ${mib(memory.processAloneBytes)}, its first session with its runs ${mib(memory.processAndSessionBytes - memory.processAloneBytes)}`,
      `back after leaving: ${memory.afterLeaving.back}, after SIGKILL in mid-run: ${memory.killedInMidRun.back} in ${memory.killedInMidRun.tookMs} ms`,
    ]),
    'first runs of each batch size, and whether batching pays': answer([vision], () => [
      ...Object.entries(vision.batches).map(
        ([rows, { firstMs, gpuMs }]) => `${rows} rows: first ${firstMs} ms, then ${gpuMs} ms`,
      ),
      ...[matrix, vision]
        .filter((part) => part?.best)
        .map(({ best }) => `best ${best.rows} rows: ${best.timesBatch1} x`),
    ]),
    'several processes on one card': answer([processes], () => [
      ...['matrix', 'vision'].flatMap((model) =>
        Object.entries(processes[model] ?? {}).map(
          ([count, { timesOne, error }]) => `${model}, ${count}: ${error ?? `${timesOne} x`}`,
        ),
      ),
      processes.mps
        ? 'under MPS'
        : 'without MPS; its effect was not measured: it does not run, and is not started here',
    ]),
    'error texts': answer([texts], () => [
      `out of memory at run time: ${said(texts.outOfMemoryAtRun)}; a small run afterwards: ${texts.outOfMemoryAtRun?.smallRunAfterwards}`,
      `device 99: ${said(texts.device99)}`,
      `device -1: ${said(texts.deviceMinus1)}`,
      `killed in mid-run: the next session opened in ${memory?.killedInMidRun?.nextSessionMs} ms`,
      'no kernel image (209): not answered: it takes a card that the provider has no code for',
      'device lost: not answered: it takes a card that fails',
    ]),
    'library versions with this driver': answer([matrix], () => [
      `${card.split('\n').at(-1)}; packages: ${packages.join(', ') || 'none of our own'}; libraries: ${matrix.libraries?.join(', ') ?? 'not known'}`,
    ]),
    'cuDNN without NVRTC': answer([nvrtc], () => [
      nvrtc.nvrtc === null ? 'there is no NVRTC here' : `left out: ${nvrtc.nvrtc}`,
      ...Object.entries(nvrtc.vision).map(([rows, found]) => `${rows} rows: ${found.error ?? 'runs'}`),
    ]),
    'nvidia-smi in its loop': answer([smi], () => [
      `${smi.understood} of ${smi.count} lines understood, largest gap ${smi.largestGapMs} ms, ${smi.cpuMsPerSecond} ms of CPU a second`,
    ]),
    'nothing on the CPU in silence': answer([fallback], () => [JSON.stringify(fallback.proof)]),
    goals: {
      'share of the bare session at the best batch through serve, at least 0.95': number(
        serve?.vision?.bestBatch?.shareOfBare,
        serve?.vision ?? serve,
      ),
      'through the queue, at least 0.9': number(queue?.vision?.bestBatch?.shareOfBare, queue?.vision ?? queue),
      '64 clients beside batch 1 of the bare session, vision, at least 5': number(
        serve?.vision?.manyClients?.timesBareBatch1,
        serve?.vision ?? serve,
      ),
      'load to ready, vision, at most 15000 ms': number(serve?.vision?.readyMs, serve?.vision ?? serve),
    },
  };
}

function answer(parts, lines) {
  const missing = parts.find((part) => !part || part.skipped);
  if (missing !== undefined || parts.includes(undefined)) {
    return `not answered: ${missing?.skipped ?? 'it was not measured'}`;
  }
  try {
    return lines();
  } catch {
    return `not answered: ${parts.find(({ error }) => error)?.error ?? 'something was not measured'}`;
  }
}

function agreementText({ best, batches, exact }) {
  const compared = Object.values(batches).filter(({ agrees }) => agrees !== undefined);
  const agree = compared.filter(({ agrees }) => agrees).length;
  const speed = best ? `${best.rowsPerSecond} rows/s at ${best.rows} rows` : 'no speed';
  return `${agree} of ${compared.length} batches agree with the CPU, without TF32: ${exact?.agrees ?? 'not measured'}; ${speed}`;
}

function said({ text, note, error } = {}) {
  return text ?? error ?? note ?? 'nothing';
}

function mib(bytes) {
  return `${Math.round(bytes / 1024 / 1024)} MiB`;
}

function number(value, part) {
  return typeof value === 'number' ? value : `not measured: ${part?.skipped ?? part?.error ?? 'it was left out'}`;
}
