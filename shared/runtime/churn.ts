/**
 * A Map and a Set for what comes and goes by the thousand. A native one gets a new hash table after every few deletions,
 * and V8 lets each old table point to its successor: once one of them lies among the old objects, every entry of all that
 * follow outlives its time there too, until the next full collection (measured: fifty full collections where there was
 * none, and twice the CPU). These begin afresh before the chain is long.
 */
const RENEW_AFTER = 64;

export class ChurnMap<K, V> {
  #map = new Map<K, V>();
  #deletions = 0;

  get size(): number {
    return this.#map.size;
  }

  has(key: K): boolean {
    return this.#map.has(key);
  }

  get(key: K): V | undefined {
    return this.#map.get(key);
  }

  set(key: K, value: V): void {
    this.#map.set(key, value);
  }

  /** Whether it was there. */
  delete(key: K): boolean {
    if (!this.#map.delete(key)) return false;
    this.#deletions += 1;
    if (this.#deletions >= Math.max(RENEW_AFTER, this.#map.size)) {
      this.#map = new Map(this.#map);
      this.#deletions = 0;
    }
    return true;
  }

  clear(): void {
    this.#map = new Map();
    this.#deletions = 0;
  }

  /** Those of now, in the order of their arrival; what is deleted meanwhile may still come. */
  values(): IterableIterator<V> {
    return this.#map.values();
  }

  /** As `values`. */
  [Symbol.iterator](): IterableIterator<[K, V]> {
    return this.#map[Symbol.iterator]();
  }
}

export class ChurnSet<T> {
  readonly #map = new ChurnMap<T, T>();

  get size(): number {
    return this.#map.size;
  }

  add(item: T): void {
    this.#map.set(item, item);
  }

  /** Whether it was there. */
  delete(item: T): boolean {
    return this.#map.delete(item);
  }

  clear(): void {
    this.#map.clear();
  }

  /** Those of now, in the order of their arrival; what is deleted meanwhile may still come. */
  [Symbol.iterator](): IterableIterator<T> {
    return this.#map.values();
  }
}
