// The other side of background-calls.ts: makes one native call after the other on a thread of low priority. Plain
// JavaScript, because a worker thread is started from a file and not every supported Node can start one from TypeScript.
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import koffi from 'koffi';

const { niceness, stackBytes } = workerData;
koffi.config({ sync_stack_size: stackBytes });
const library = koffi.load(process.platform === 'win32' ? 'ntdll.dll' : null); // koffi makes its stacks with the first library
const prototypes = new Map();

// On Linux this is the priority of the thread that calls; elsewhere it would be that of the whole process.
if (process.platform === 'linux') {
  try {
    setPriority(0, niceness);
  } catch {
    // Not allowed here: the calls run all the same, as fast as others.
  }
}

parentPort.on('message', ({ address, result, args, values }) => {
  try {
    parentPort.postMessage({ value: koffi.call(address, prototypeOf(result, args), ...values) });
  } catch (error) {
    parentPort.postMessage({ error });
  }
});

function prototypeOf(result, args) {
  const key = `${result}(${args.join()})`;
  let prototype = prototypes.get(key);
  if (!prototype) prototypes.set(key, (prototype = koffi.proto(result, args)));
  return library && prototype; // koffi would unload the library with its handle
}
