/** Something that is in a heap and knows its place there. */
export interface HeapEntry {
  /** -1 while it is in none. Belongs to the heap. */
  heapIndex: number;
}

/** A binary heap from which any entry can be taken, or moved when its order has changed, in logarithmic time. */
export class IndexedHeap<T extends HeapEntry> {
  readonly #comesFirst: (a: T, b: T) => boolean;
  readonly #entries: T[] = [];

  constructor(comesFirst: (a: T, b: T) => boolean) {
    this.#comesFirst = comesFirst;
  }

  get first(): T | undefined {
    return this.#entries[0];
  }

  push(entry: T): void {
    this.#entries.push(entry);
    this.#rise(entry, this.#entries.length - 1);
  }

  /** The entry, which is in the heap, may have to stand elsewhere now. */
  update(entry: T): void {
    this.#rise(entry, entry.heapIndex);
    this.#sink(entry, entry.heapIndex);
  }

  /** Nothing happens to one that is not in the heap. */
  remove(entry: T): void {
    if (entry.heapIndex < 0) return;
    const last = this.#entries.pop();
    if (last && last !== entry) {
      this.#place(last, entry.heapIndex);
      this.update(last);
    }
    entry.heapIndex = -1;
  }

  #rise(entry: T, from: number): void {
    let index = from;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = this.#entries[parentIndex];
      if (!parent || !this.#comesFirst(entry, parent)) break;
      this.#place(parent, index);
      index = parentIndex;
    }
    this.#place(entry, index);
  }

  #sink(entry: T, from: number): void {
    let index = from;
    for (;;) {
      let childIndex = 2 * index + 1;
      let child = this.#entries[childIndex];
      if (!child) break;
      const right = this.#entries[childIndex + 1];
      if (right && this.#comesFirst(right, child)) {
        child = right;
        childIndex += 1;
      }
      if (!this.#comesFirst(child, entry)) break;
      this.#place(child, index);
      index = childIndex;
    }
    this.#place(entry, index);
  }

  #place(entry: T, index: number): void {
    this.#entries[index] = entry;
    entry.heapIndex = index;
  }
}
