import { InferError } from '../../../shared/errors.ts';
import { AGED_AFTER_MS, AgedTurns } from './aged-turns.ts';
import { IndexedHeap } from './indexed-heap.ts';
import type { LeveledQueue } from './leveled-queue.ts';
import type { PendingRequest } from './pending-request.ts';
import { levelOf, policyOfLevel, type QueuePolicy, queueTimeoutMs } from './queue-policy.ts';
import { Ticket } from './ticket.ts';

/** What a queue policy has to know over all groups of a model: how many wait in each level, and whose time is over when. */
export class QueueLevels {
  readonly #policy: QueuePolicy;
  readonly #counts = new Map<number, number>();
  readonly #expiries = new IndexedHeap<Ticket>(expiresFirst);
  /** Those that are not empty. */
  readonly #queues = new Set<LeveledQueue>();
  readonly #agedTurns = new AgedTurns();
  #sequence = 0;

  constructor(policy: QueuePolicy) {
    this.#policy = policy;
  }

  /** When the first request's time is over, in ms; Infinity for never. */
  get nextExpiryMs(): number {
    return this.#expiries.first?.expiresMs ?? Infinity;
  }

  /** Why no more requests of that priority may wait; undefined while there is room. */
  refusal(model: string, priority: number): InferError | undefined {
    const level = levelOf(this.#policy, priority);
    const { maxQueueSize } = policyOfLevel(this.#policy, level);
    if (maxQueueSize === Infinity || (this.#counts.get(level) ?? 0) < maxQueueSize) return undefined;
    const where = this.#policy.levels > 1 ? ` in priority level ${level}` : '';
    const text = `Exceeds maximum queue size: ${maxQueueSize} requests wait for model '${model}'${where}`;
    return new InferError('UNAVAILABLE', text, { refusedAt: 'entry' });
  }

  /** The ticket for a request that enters a group. */
  enter(item: PendingRequest, queue: LeveledQueue): Ticket {
    const level = levelOf(this.#policy, item.call.priority);
    const timeoutMs = queueTimeoutMs(policyOfLevel(this.#policy, level), item.request.parameters['timeout']);
    this.#sequence += 1;
    const ticket = new Ticket(item, queue, level, item.enqueuedMs + timeoutMs, this.#sequence);
    item.ticket = ticket;
    this.#counts.set(level, (this.#counts.get(level) ?? 0) + 1);
    if (timeoutMs < Infinity) this.#expiries.push(ticket);
    this.#queues.add(queue);
    return ticket;
  }

  leave(ticket: Ticket): void {
    const { item, level, group } = ticket;
    item.ticket = undefined;
    this.#counts.set(level, (this.#counts.get(level) ?? 0) - 1);
    this.#expiries.remove(ticket);
    if (group.count === 0) this.#queues.delete(group);
  }

  /** A request whose time is over, each once: moved behind others if `delays`, else still where it was. */
  takeExpired(nowMs: number): { readonly ticket: Ticket; readonly delays: boolean } | undefined {
    const ticket = this.#expiries.first;
    if (!ticket || ticket.expiresMs > nowMs) return undefined;
    this.#expiries.remove(ticket);
    const { delays } = policyOfLevel(this.#policy, ticket.level);
    if (delays) ticket.group.delay(ticket);
    return { ticket, delays };
  }

  /** Before each run: brings those to the front whose turn it is for having waited. Returns their group. */
  promoteAged(nowMs: number, maxRows: number): LeveledQueue | undefined {
    if (!this.#policy.reorders) return undefined;
    const queue = this.#agedTurns.take(this.#queues, nowMs);
    queue?.promoteOldest(nowMs - AGED_AFTER_MS, maxRows);
    return queue;
  }

  noteRun(): void {
    this.#agedTurns.noteRun();
  }
}

/** Of those that expire together, the one that came first. */
function expiresFirst(a: Ticket, b: Ticket): boolean {
  return a.expiresMs === b.expiresMs ? a.sequence < b.sequence : a.expiresMs < b.expiresMs;
}
