import koffi from 'koffi';

/**
 * koffi runs native code on stacks of its own, by default of 128 KiB for asynchronous calls and 2 MiB for others. A model
 * with nested graphs needs more, and an overflow ends the process. The memory is taken as it is touched, so the size costs
 * addresses only.
 */
export const STACK_BYTES = 8 * 1024 * 1024;

/** Runs under way or waiting for a thread. koffi's default of 256 would bound the instances of a process. */
const MAX_ASYNC_CALLS = 4096;

/** Stacks that are kept for the next call; koffi's maximum. */
const RESIDENT_ASYNC_POOLS = 32;

/**
 * Applies the settings that running models takes. koffi accepts them before the first library is loaded only, so whoever
 * loads another library through koffi calls this first. Calling it again changes nothing.
 * @throws Error when a library was loaded before with other settings.
 */
export function applyKoffiSettings(): void {
  if (koffi.config().async_stack_size === STACK_BYTES) return;
  koffi.config({
    sync_stack_size: STACK_BYTES,
    async_stack_size: STACK_BYTES,
    max_async_calls: MAX_ASYNC_CALLS,
    resident_async_pools: RESIDENT_ASYNC_POOLS,
  });
}
