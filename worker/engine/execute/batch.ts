import type { ReleaseReason } from '../../../shared/infer/response.ts';
import type { Run } from '../instance/instance.ts';
import type { PendingRequest } from '../schedule/pending-request.ts';

/** Makes a row that stands for a place without a request. */
export type EmptyRow = () => PendingRequest;

/** Requests that run together, in the order of their arrival, or of their places where empty rows stand between them. */
export class Batch {
  readonly members: readonly PendingRequest[];
  readonly rows: number;
  /** The same, or more when the run is filled up to a size that the model is used to. */
  runRows: number;
  /** It is not to be filled up. */
  exact = false;
  readonly release: ReleaseReason;
  /** Given where each member keeps its row: what leaves before the run gives way to an empty row. */
  readonly emptyRow: EmptyRow | undefined;
  /** Members that somebody still waits for. */
  live: number;
  /** Set while the model runs. */
  run: Run | undefined;
  readonly #onLeave: (() => void) | undefined;

  /** `onLeave` is called whenever a member leaves. */
  constructor(members: readonly PendingRequest[], release: ReleaseReason, onLeave?: () => void, emptyRow?: EmptyRow) {
    let rows = 0;
    let live = 0;
    for (const member of members) {
      rows += member.rows;
      if (member.empty) continue;
      live += 1;
      member.batch = this;
    }
    this.members = members;
    this.rows = rows;
    this.runRows = rows;
    this.release = release;
    this.emptyRow = emptyRow;
    this.live = live;
    this.#onLeave = onLeave;
  }

  /** One member is not waited for any more. A run that nobody waits for is stopped. */
  leave(): void {
    this.live -= 1;
    if (this.live === 0) this.run?.stop();
    this.#onLeave?.();
  }
}
