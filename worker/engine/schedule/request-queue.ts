import type { PendingRequest } from './pending-request.ts';
import type { RequestGroup } from './waiting-groups.ts';

/** First in, first out, as a list through the requests themselves: any of them can leave at once. */
export class RequestQueue implements RequestGroup {
  readonly key: string;
  readonly rank = 0;
  heapIndex = -1;
  ripe = false;
  #head: PendingRequest | undefined;
  #tail: PendingRequest | undefined;
  #rows = 0;
  #count = 0;

  constructor(key: string) {
    this.key = key;
  }

  get head(): PendingRequest | undefined {
    return this.#head;
  }

  get oldestMs(): number {
    return this.#head?.enqueuedMs ?? Infinity;
  }

  get firstMs(): number {
    return this.oldestMs;
  }

  /** Rows of all waiting requests. */
  get rows(): number {
    return this.#rows;
  }

  get count(): number {
    return this.#count;
  }

  push(item: PendingRequest): void {
    item.previous = this.#tail;
    if (this.#tail) this.#tail.next = item;
    else this.#head = item;
    this.#tail = item;
    this.#rows += item.rows;
    this.#count += 1;
  }

  /** The first `count` requests, in order. The caller has seen that there are so many. */
  take(count: number): PendingRequest[] {
    const taken: PendingRequest[] = [];
    for (let item = this.#head; item && taken.length < count; item = this.#head) {
      this.remove(item);
      taken.push(item);
    }
    return taken;
  }

  /** The caller knows that the request is in this queue. */
  remove(item: PendingRequest): void {
    if (item.previous) item.previous.next = item.next;
    else this.#head = item.next;
    if (item.next) item.next.previous = item.previous;
    else this.#tail = item.previous;
    item.next = undefined;
    item.previous = undefined;
    this.#rows -= item.rows;
    this.#count -= 1;
  }
}
