/** What a request takes up, and what limits are about. */
export const DIMENSIONS = ['requests', 'rows', 'bytes'] as const;

export type Dimension = (typeof DIMENSIONS)[number];

/** As a limit 0 stands for none. */
export type Amounts = Readonly<Record<Dimension, number>>;

export const NO_LIMITS: Amounts = Object.freeze({ requests: 0, rows: 0, bytes: 0 });

export function isLimited({ requests, rows, bytes }: Amounts): boolean {
  return requests > 0 || rows > 0 || bytes > 0;
}

/** A model or a tenant, as one that shares what there is with others of its kind. */
export interface Party {
  readonly name: string;
  /** Its part of what there is, beside the weights of the others; a whole number from 1 up. */
  readonly weight: number;
  /** Of its own. */
  readonly max: Amounts;
}

export interface TenantParty extends Party {
  /** Between two requests on average, in whole microseconds; 0 for any number of requests. */
  readonly intervalUs: number;
  /** Requests that may come at once after a pause. */
  readonly burst: number;
}

/** A request that wants to come in. The object itself is the receipt: it is given back to `leave`. */
export interface Ask {
  readonly model: Party;
  readonly tenant: TenantParty | undefined;
  /** Of all models and tenants together. */
  readonly pool: Amounts;
  readonly rows: number;
  readonly bytes: number;
}

export const SCOPES = ['pool', 'model', 'tenant'] as const;

/** Why a request may not come in now. */
export interface Refusal {
  /** Whose limit it is. */
  readonly scope: (typeof SCOPES)[number];
  /** `rate` for more requests a second than a tenant may send. */
  readonly what: Dimension | 'rate';
  /** For whom the room is kept that there is; undefined where there is none. */
  readonly keptFor: 'models' | 'tenants' | undefined;
  readonly inHand: number;
  readonly limit: number;
  /** By how much it would be exceeded. */
  readonly excess: number;
  /** In the scope, whatever the dimension. */
  readonly requestsInHand: number;
  /** Until the rate allows the next one. */
  readonly waitUs: number;
  /** Requests that leave the scope each second; undefined while nothing was measured. */
  readonly perSecond: number | undefined;
}

/**
 * Counts what all who use it have in hand, and lets nobody in above a limit. Limits come with each request, so that those
 * of a model change with the model; whoever shares the counts should give the same ones.
 */
export interface SharedLimits {
  /**
   * Takes a place, to be given back with `leave(ask)`: undefined means that it was given.
   * @throws InferError UNAVAILABLE when the counts cannot be reached: nobody comes in uncounted
   */
  enter(ask: Ask): Promise<Refusal | undefined>;
  /** Gives the place back, perhaps a few ms later. */
  leave(ask: Ask): void;
  close(): Promise<void>;
}
