import type { ReleaseReason } from '../../../shared/infer/response.ts';
import type { Run } from '../instance/instance.ts';
import type { PendingRequest } from '../schedule/pending-request.ts';

/** Requests that run together, in the order of their arrival. */
export class Batch {
  readonly members: readonly PendingRequest[];
  readonly rows: number;
  readonly release: ReleaseReason;
  /** Members that somebody still waits for. */
  live: number;
  /** Set while the model runs. */
  run: Run | undefined;
  readonly #onLeave: (() => void) | undefined;

  /** `onLeave` is called whenever a member leaves. */
  constructor(members: readonly PendingRequest[], release: ReleaseReason, onLeave?: () => void) {
    let rows = 0;
    for (const member of members) {
      rows += member.rows;
      member.batch = this;
    }
    this.members = members;
    this.rows = rows;
    this.release = release;
    this.live = members.length;
    this.#onLeave = onLeave;
  }

  /** One member is not waited for any more. A run that nobody waits for is stopped. */
  leave(): void {
    this.live -= 1;
    if (this.live === 0) this.run?.stop();
    this.#onLeave?.();
  }
}
