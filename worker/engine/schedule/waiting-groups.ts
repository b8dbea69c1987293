import type { GroupView } from './batch-policy.ts';
import { type HeapEntry, IndexedHeap } from './indexed-heap.ts';
import type { PendingRequest } from './pending-request.ts';

/** Waiting requests that may share a run. */
export interface RequestGroup extends GroupView, HeapEntry {
  /** Of all its requests; see group-key.ts. */
  readonly key: string;
  readonly count: number;
  /** How urgent its first request is; lower comes first. */
  readonly rank: number;
  /** When its first request entered, in ms. */
  readonly firstMs: number;
  /** Whether it holds enough rows to run without waiting. Belongs to WaitingGroups. */
  ripe: boolean;
  push(item: PendingRequest): void;
  remove(item: PendingRequest): void;
  /** The first `count` requests, in order. The caller has seen that there are so many. */
  take(count: number): PendingRequest[];
}

/** All that waits for one model version, in groups that cannot share a run with each other. */
export class WaitingGroups {
  readonly #createGroup: (key: string) => RequestGroup;
  #ripeRows: number;
  readonly #groups = new Map<string, RequestGroup>();
  /** Those that are not empty. */
  readonly #order = new IndexedHeap<RequestGroup>(comesFirst);
  readonly #ripe = new Set<RequestGroup>();
  #count = 0;

  /** From `ripeRows` on a group may run without waiting. */
  constructor(ripeRows: number, createGroup: (key: string) => RequestGroup) {
    this.#ripeRows = ripeRows;
    this.#createGroup = createGroup;
  }

  /** Another number of rows is enough to run without waiting. */
  set ripeRows(rows: number) {
    this.#ripeRows = rows;
    for (const group of this.#groups.values()) this.update(group);
  }

  /** Requests in all groups. */
  get count(): number {
    return this.#count;
  }

  /** The group whose first request is the most urgent one, and of those the oldest. */
  get first(): RequestGroup | undefined {
    return this.#order.first;
  }

  get ripe(): Iterable<RequestGroup> {
    return this.#ripe;
  }

  get all(): Iterable<RequestGroup> {
    return this.#groups.values();
  }

  /** Puts the request into its group, which is returned. */
  add(item: PendingRequest): RequestGroup {
    let group = this.#groups.get(item.groupKey);
    if (!group) {
      group = this.#createGroup(item.groupKey);
      this.#groups.set(item.groupKey, group);
    }
    group.push(item);
    this.#count += 1;
    this.update(group);
    return group;
  }

  /** The caller knows that the request waits. */
  remove(item: PendingRequest): void {
    const group = this.#groups.get(item.groupKey);
    if (!group) return;
    group.remove(item);
    this.#count -= 1;
    this.update(group);
  }

  take(group: RequestGroup, count: number): PendingRequest[] {
    const taken = group.take(count);
    this.#count -= taken.length;
    this.update(group);
    return taken;
  }

  takeAll(): PendingRequest[] {
    return [...this.#groups.values()].flatMap((group) => this.take(group, group.count));
  }

  /** Whatever enters or leaves a group, or changes its order, is followed by this. */
  update(group: RequestGroup): void {
    if (group.count === 0) {
      this.#order.remove(group);
      if (group.key !== '') this.#groups.delete(group.key); // '' is the only group of models of fixed shapes
    } else if (group.heapIndex < 0) {
      this.#order.push(group);
    } else {
      this.#order.update(group);
    }
    const ripe = group.rows >= this.#ripeRows;
    if (ripe === group.ripe) return;
    group.ripe = ripe;
    if (ripe) this.#ripe.add(group);
    else this.#ripe.delete(group);
  }
}

export function comesFirst(a: RequestGroup, b: RequestGroup): boolean {
  return a.rank === b.rank ? a.firstMs < b.firstMs : a.rank < b.rank;
}
