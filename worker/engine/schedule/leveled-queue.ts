import type { PendingRequest } from './pending-request.ts';
import type { QueueLevels } from './queue-levels.ts';
import { AGED_RANK, delayedRankOf, type Ticket } from './ticket.ts';
import type { RequestGroup } from './waiting-groups.ts';

/**
 * A group whose requests have priorities or a limited time to wait. One list in the order of service: level by level,
 * within a level first in, first out, and behind them those of the level whose time is over. A second list in the order
 * of arrival. Entering and leaving takes constant time for a given number of levels in use.
 */
export class LeveledQueue implements RequestGroup {
  readonly key: string;
  heapIndex = -1;
  ripe = false;
  readonly #levels: QueueLevels;
  /** The last request of each rank that is there. */
  readonly #lasts = new Map<number, Ticket>();
  /** Those ranks, ascending. */
  readonly #ranks: number[] = [];
  #head: Ticket | undefined;
  #oldest: Ticket | undefined;
  #newest: Ticket | undefined;
  #rows = 0;
  #count = 0;

  constructor(key: string, levels: QueueLevels) {
    this.key = key;
    this.#levels = levels;
  }

  get head(): Ticket | undefined {
    return this.#head;
  }

  get oldestMs(): number {
    return this.#oldest?.item.enqueuedMs ?? Infinity;
  }

  get rank(): number {
    return this.#head?.rank ?? Infinity;
  }

  get firstMs(): number {
    return this.#head?.item.enqueuedMs ?? Infinity;
  }

  get rows(): number {
    return this.#rows;
  }

  get count(): number {
    return this.#count;
  }

  push(item: PendingRequest): void {
    const ticket = this.#levels.enter(item, this);
    ticket.older = this.#newest;
    if (this.#newest) this.#newest.newer = ticket;
    else this.#oldest = ticket;
    this.#newest = ticket;
    this.#insert(ticket);
    this.#rows += ticket.rows;
    this.#count += 1;
  }

  /** The first `count` requests, in order. The caller has seen that there are so many. */
  take(count: number): PendingRequest[] {
    const taken: PendingRequest[] = [];
    for (let ticket = this.#head; ticket && taken.length < count; ticket = this.#head) {
      taken.push(ticket.item);
      this.#leave(ticket);
    }
    return taken;
  }

  /** The caller knows that the request is in this queue. */
  remove(item: PendingRequest): void {
    if (item.ticket) this.#leave(item.ticket);
  }

  /** Moves a request, whose time is over, behind those of its level that are in time. */
  delay(ticket: Ticket): void {
    if (ticket.rank !== AGED_RANK) this.#move(ticket, delayedRankOf(ticket.level));
  }

  /** Moves the oldest requests to the front, those that came until `untilMs` and at most `maxRows` rows of them. */
  promoteOldest(untilMs: number, maxRows: number): void {
    let rows = 0;
    for (let ticket = this.#oldest; ticket && ticket.item.enqueuedMs <= untilMs; ticket = ticket.newer) {
      rows += ticket.rows;
      if (rows > maxRows) return;
      if (ticket.rank !== AGED_RANK) this.#move(ticket, AGED_RANK);
    }
  }

  #move(ticket: Ticket, rank: number): void {
    this.#unlink(ticket);
    ticket.rank = rank;
    this.#insert(ticket);
  }

  #leave(ticket: Ticket): void {
    this.#unlink(ticket);
    if (ticket.older) ticket.older.newer = ticket.newer;
    else this.#oldest = ticket.newer;
    if (ticket.newer) ticket.newer.older = ticket.older;
    else this.#newest = ticket.older;
    ticket.older = undefined;
    ticket.newer = undefined;
    this.#rows -= ticket.rows;
    this.#count -= 1;
    this.#levels.leave(ticket);
  }

  /** Behind the last one of its rank, or of the nearest rank before it. */
  #insert(ticket: Ticket): void {
    let at = this.#ranks.length - 1;
    while (at >= 0 && (this.#ranks[at] ?? 0) > ticket.rank) at -= 1;
    const rankBefore = this.#ranks[at];
    if (rankBefore !== ticket.rank) this.#ranks.splice(at + 1, 0, ticket.rank);
    const before = rankBefore === undefined ? undefined : this.#lasts.get(rankBefore);
    const after = before ? before.next : this.#head;
    this.#lasts.set(ticket.rank, ticket);
    ticket.previous = before;
    ticket.next = after;
    if (before) before.next = ticket;
    else this.#head = ticket;
    if (after) after.previous = ticket;
  }

  #unlink(ticket: Ticket): void {
    const { rank, previous, next } = ticket;
    if (this.#lasts.get(rank) === ticket) {
      if (previous?.rank === rank) {
        this.#lasts.set(rank, previous);
      } else {
        this.#lasts.delete(rank);
        this.#ranks.splice(this.#ranks.indexOf(rank), 1);
      }
    }
    if (previous) previous.next = next;
    else this.#head = next;
    if (next) next.previous = previous;
    ticket.previous = undefined;
    ticket.next = undefined;
  }
}
