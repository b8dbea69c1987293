import type { SequencePart } from '../../../shared/infer/sequence.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { OwnBatch, PendingRequest } from '../schedule/pending-request.ts';
import type { SequenceLane } from './sequence-lane.ts';

/** A request of a sequence, from its entry until it has run. */
export class SequenceRequest implements OwnBatch {
  readonly sequence: Sequence;
  readonly part: SequencePart;
  readonly item: PendingRequest;
  /** Its row of a run, once it has one. */
  row: PendingRequest | undefined;

  constructor(sequence: Sequence, part: SequencePart, item: PendingRequest) {
    this.sequence = sequence;
    this.part = part;
    this.item = item;
  }

  /** Nobody waits for it any more; its run may have to go on for the others in it. */
  leave(): void {
    this.row?.batch?.leave();
  }
}

/**
 * One sequence, from the arrival of its START until it gives up its place. Its requests run one at a time, in the order of
 * their arrival. Where a START comes for an id whose sequence has not ended yet, it begins anew in the same place.
 *
 * It is *in the backlog* without a place, then at a place of a lane for good: *ready* while its first request could run,
 * *running*, or *idle* while it has none. It is *closing* from the arrival of its END on, and takes
 * nothing more but a START.
 */
export class Sequence {
  readonly key: string;
  readonly id: SequencePart['id'];
  /** In the order of arrival; without the one that runs. */
  readonly waiting: SequenceRequest[] = [];
  running: SequenceRequest | undefined;
  /** Undefined in the backlog. */
  place: { readonly lane: SequenceLane; readonly index: number } | undefined;
  closing = false;
  /** A START has run, and no later one has failed. */
  begun = false;
  /** What the model gave last, as its inputs for the next request; empty before the first. */
  states: readonly Tensor[] = [];
  stateBytes = 0;
  /** Since when its first request could run; what may share a run with it has the same key. */
  readyMs = 0;
  groupKey = '';
  idleSinceMs = 0;

  constructor({ key, id }: SequencePart) {
    this.key = key;
    this.id = id;
  }
}
