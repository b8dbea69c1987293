import { InferError } from '../../../shared/errors.ts';
import type { RunGate, SlotWaiter } from './run-slots.ts';

/** What one instance takes for the time of a run, as `rate_limiter` of its group says. */
export interface InstanceNeeds {
  readonly resources: readonly ResourceNeed[];
  /** From 1 up; n gets 1/n of the chances. */
  readonly priority: number;
}

export interface ResourceNeed {
  readonly name: string;
  /** One for all devices, instead of one for each. */
  readonly global: boolean;
  readonly count: number;
}

/** The gates of one model version's instances, in their order. */
export interface LimitedModel {
  readonly gates: readonly RunGate[];
  /** The instances are gone, and what they could take counts no more. */
  close(): void;
}

/** A resource of which runs take some. Only the CPU runs models, so there is one device. */
interface Pool {
  readonly name: string;
  readonly global: boolean;
  readonly claims: Map<InstanceGate, number>;
  limit: number;
  used: number;
}

/**
 * Lets an instance run when a thread is free and all that its `rate_limiter` names. Of those that wait, the one comes first
 * that has run least for its priority: every run moves its `pass` on by the priority, and whoever was idle starts where
 * the others are, so that it cannot make up for the time. One that has to wait for much keeps those behind it from taking
 * it away bit by bit; those that need other things pass it.
 */
export class RateLimiter {
  /** Given by the operator, by name. Without, there is of each resource what the hungriest instance takes. */
  readonly #limits: ReadonlyMap<string, number>;
  readonly #pools = new Map<string, Pool>();
  readonly #waiting = new Map<InstanceGate, SlotWaiter>();
  readonly #slots: number;
  #freeSlots: number;
  /** It waited, and is just being woken. */
  #called: InstanceGate | undefined;
  /** The pass of the run that was started last. */
  #now = 0;

  /** `slots` is the number of runs that may be under way at once. */
  constructor(slots: number, limits: ReadonlyMap<string, number>) {
    this.#slots = slots;
    this.#freeSlots = slots;
    this.#limits = limits;
  }

  /** Runs under way. */
  get runs(): number {
    return this.#slots - this.#freeSlots;
  }

  /** @throws InferError INVALID_ARGUMENT when an instance needs more of a resource than there is. */
  add(model: string, instances: readonly InstanceNeeds[]): LimitedModel {
    const gates = instances.map((needs) => new InstanceGate(this, Math.max(1, needs.priority)));
    for (const [index, { resources }] of instances.entries()) {
      const gate = gates[index];
      for (const need of gate ? resources : []) if (gate) this.#claim(gate, need);
    }
    const close = () => this.#remove(gates);
    const problem = this.#problemOf(gates);
    if (problem === undefined) return { gates, close };
    close();
    throw new InferError('INVALID_ARGUMENT', `model "${model}": rate_limiter: ${problem}`);
  }

  /** For the gates only. */
  take(gate: InstanceGate, waiter: SlotWaiter): boolean {
    const waited = this.#waiting.has(gate) || this.#called === gate;
    if (!waited) gate.pass = Math.max(gate.pass, this.#now);
    if (!this.#mayRun(gate)) {
      this.#waiting.set(gate, waiter);
      return false;
    }
    this.#waiting.delete(gate);
    this.#freeSlots -= 1;
    for (const [pool, count] of gate.needs) pool.used += count;
    this.#now = gate.pass;
    gate.pass += gate.priority;
    return true;
  }

  /** For the gates only. */
  give(gate: InstanceGate, waiter: SlotWaiter): void {
    this.#freeSlots += 1;
    for (const [pool, count] of gate.needs) pool.used -= count;
    if (!gate.closed) this.#waiting.set(gate, waiter);
    this.#wakeWaiting();
  }

  #claim(gate: InstanceGate, { name, global, count }: ResourceNeed): void {
    const key = `${global ? 'global' : 'device'} ${name}`;
    let pool = this.#pools.get(key);
    if (!pool) this.#pools.set(key, (pool = { name, global, claims: new Map(), limit: 0, used: 0 }));
    pool.claims.set(gate, count);
    gate.needs.set(pool, count);
    this.#measure(pool);
  }

  #measure(pool: Pool): void {
    pool.limit = this.#limits.size > 0 ? (this.#limits.get(pool.name) ?? 0) : Math.max(0, ...pool.claims.values());
  }

  #problemOf(gates: readonly InstanceGate[]): string | undefined {
    for (const gate of gates) {
      for (const [pool, count] of gate.needs) {
        const other = this.#pools.get(`${pool.global ? 'device' : 'global'} ${pool.name}`);
        if (other) return `resource "${pool.name}" is global for some instances and not for others`;
        if (count <= pool.limit) continue;
        return `resource "${pool.name}": ${count} are needed, --rate-limit-resource gives ${pool.limit}`;
      }
    }
    return undefined;
  }

  #remove(gates: readonly InstanceGate[]): void {
    for (const gate of gates) {
      gate.closed = true;
      this.#waiting.delete(gate);
      for (const pool of gate.needs.keys()) {
        pool.claims.delete(gate);
        this.#measure(pool);
      }
    }
    for (const [key, { claims }] of this.#pools) if (claims.size === 0) this.#pools.delete(key);
    this.#wakeWaiting();
  }

  #mayRun(gate: InstanceGate): boolean {
    if (this.#freeSlots === 0 || isShort(gate)) return false;
    for (const other of this.#waiting.keys()) {
      if (other === gate || other.pass > gate.pass) continue;
      for (const [pool, count] of other.needs) {
        if (pool.used + count > pool.limit && gate.needs.has(pool)) return false;
      }
    }
    return true;
  }

  #wakeWaiting(): void {
    const line = [...this.#waiting.keys()].sort((a, b) => a.pass - b.pass);
    for (const gate of line) {
      if (this.#freeSlots === 0) return;
      const waiter = this.#waiting.get(gate);
      if (!waiter || !this.#mayRun(gate)) continue;
      this.#waiting.delete(gate);
      const before = this.#called;
      this.#called = gate;
      waiter.wake();
      this.#called = before;
    }
  }
}

function isShort(gate: InstanceGate): boolean {
  for (const [pool, count] of gate.needs) if (pool.used + count > pool.limit) return true;
  return false;
}

class InstanceGate implements RunGate {
  readonly needs = new Map<Pool, number>();
  readonly priority: number;
  pass = 0;
  /** Its instance is gone; a run that did not stop may still give back. */
  closed = false;
  readonly #limiter: RateLimiter;

  constructor(limiter: RateLimiter, priority: number) {
    this.#limiter = limiter;
    this.priority = priority;
  }

  get runs(): number {
    return this.#limiter.runs;
  }

  take(waiter: SlotWaiter): boolean {
    return this.#limiter.take(this, waiter);
  }

  give(waiter: SlotWaiter): void {
    this.#limiter.give(this, waiter);
  }
}
