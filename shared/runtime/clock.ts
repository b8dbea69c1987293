/** A monotonic clock in milliseconds, so that tests can bring their own. */
export interface Clock {
  now(): number;
  /**
   * Calls back once after `ms`; the returned function cancels. A wait of less than a millisecond, which timers cannot
   * measure, ends at the next turn of the event loop, perhaps too early: whoever asks for one looks at the time again.
   */
  setTimer(callback: () => void, ms: number): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  setTimer(callback, ms) {
    if (ms < 1) {
      const immediate = setImmediate(callback);
      return () => clearImmediate(immediate);
    }
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
