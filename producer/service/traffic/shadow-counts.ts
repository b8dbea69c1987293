/** What became of the copies that one version got. Times in microseconds. */
export interface ShadowCounts {
  /** Answers that agree with the served ones within the tolerance. */
  same: number;
  different: number;
  /** Copies that failed while the request was answered. */
  errors: number;
  /** Copies that were not made, for want of room, or had nothing to be compared with. */
  skipped: number;
  /** Of the copies that were answered. */
  shadowUs: number;
  /** Of the requests that they are copies of. */
  servedUs: number;
  /** The largest difference seen, relative to the larger number where that is above 1; -1 for answers of other shapes. */
  largestDifference: number;
}

export function noShadowCounts(): ShadowCounts {
  return { same: 0, different: 0, errors: 0, skipped: 0, shadowUs: 0, servedUs: 0, largestDifference: 0 };
}

/** Counts one comparison. `difference` is Infinity for answers that cannot be compared. */
export function countComparison(counts: ShadowCounts, difference: number, tolerance: number): void {
  if (difference <= tolerance) counts.same += 1;
  else counts.different += 1;
  if (difference === Infinity)
    counts.largestDifference = -1; // JSON has no Infinity
  else if (counts.largestDifference !== -1) counts.largestDifference = Math.max(counts.largestDifference, difference);
}
