/**
 * Opens what is left to open, and closes what is open already when that fails: a process that only reported the failure
 * would stay alive for its open connections.
 */
export async function closeOnFailure<T>(close: (graceMs: number) => Promise<void>, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    await close(0);
    throw error;
  }
}
