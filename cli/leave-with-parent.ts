/** Set by `npm start`: the id of the process that started it, which is npm's shell or npm itself. */
const PARENT = 'MILLRACE_PARENT';
const LOOK_MS = 500;

/**
 * Leaves when the process that stands between npm and this one has gone: npm passes a SIGTERM on to its shell alone, and
 * the server would stay behind without anybody who knows of it. Does nothing for a process that `npm start` did not start.
 */
export function leaveWithParent(leave: (reason: string) => void, env: NodeJS.ProcessEnv = process.env): void {
  const parent = env[PARENT];
  if (parent === undefined) return;
  const timer = setInterval(() => {
    if (String(process.ppid) === parent) return;
    clearInterval(timer);
    leave('npm start has ended');
  }, LOOK_MS);
  timer.unref();
}
