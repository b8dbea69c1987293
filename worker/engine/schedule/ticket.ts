import type { WaitingView } from './batch-policy.ts';
import type { HeapEntry } from './indexed-heap.ts';
import type { LeveledQueue } from './leveled-queue.ts';
import type { PendingRequest } from './pending-request.ts';

/** Before all levels: those that have waited so long that it is their turn. */
export const AGED_RANK = 0;

/** Where requests of a level stand in the order of service; lower first. */
export function rankOf(level: number): number {
  return 2 * level;
}

/** Behind all requests of the level that are in time, before those of the next level. */
export function delayedRankOf(level: number): number {
  return 2 * level + 1;
}

/** The place of one request in a queue with levels. A link of its lists, so that leaving costs nothing. */
export class Ticket implements WaitingView, HeapEntry {
  readonly item: PendingRequest;
  readonly group: LeveledQueue;
  readonly rows: number;
  readonly level: number;
  /** Counts the requests of the model. */
  readonly sequence: number;
  /** When its time in the queue is over, in ms; Infinity for never. */
  readonly expiresMs: number;
  rank: number;
  /** In the heap of those whose time can be over. */
  heapIndex = -1;
  /** In the order of service. */
  next: Ticket | undefined;
  previous: Ticket | undefined;
  /** In the order of arrival. */
  newer: Ticket | undefined;
  older: Ticket | undefined;

  constructor(item: PendingRequest, group: LeveledQueue, level: number, expiresMs: number, sequence: number) {
    this.item = item;
    this.group = group;
    this.rows = item.rows;
    this.level = level;
    this.expiresMs = expiresMs;
    this.sequence = sequence;
    this.rank = rankOf(level);
  }
}
