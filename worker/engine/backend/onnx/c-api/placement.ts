import koffi from 'koffi';
import { numberFrom, pointerFrom, type Api } from './api.ts';
import type { Memory, Pointer, Status } from './functions.ts';

/** A node of a session's graph, and where it runs. */
export interface PlacedNode {
  /** `CUDAExecutionProvider`, `CPUExecutionProvider`. */
  readonly provider: string;
  readonly operator: string;
  /** '' for one that the file does not name. */
  readonly name: string;
}

/**
 * Where each node of a session runs, which has to have been opened with `session.record_ep_graph_assignment_info`.
 * Undefined where this ONNX Runtime cannot tell.
 * @throws OrtCallError
 */
export function placedNodes(api: Api, session: Pointer): PlacedNode[] | undefined {
  const { ort, placement } = api;
  if (!placement) return undefined;
  const text = (call: (out: Memory) => Status) => koffi.decode.string(pointerFrom(ort, call));
  const placed: PlacedNode[] = [];
  for (const part of list(api, (items, count) => placement.Session_GetEpGraphAssignmentInfo(session, items, count))) {
    const provider = text((out) => placement.EpAssignedSubgraph_GetEpName(part, out));
    for (const node of list(api, (items, count) => placement.EpAssignedSubgraph_GetNodes(part, items, count))) {
      const name = text((out) => placement.EpAssignedNode_GetName(node, out));
      placed.push({ provider, name, operator: text((out) => placement.EpAssignedNode_GetOperatorType(node, out)) });
    }
  }
  return placed;
}

/** An array of pointers and its length, which a call writes. */
function list({ ort }: Api, call: (items: Memory, count: Memory) => Status): Pointer[] {
  const items = new BigUint64Array(1);
  const length = numberFrom(ort, (count) => call(items, count));
  const first = items[0] ?? 0n;
  if (length === 0 || first === 0n) return [];
  return koffi.decode(first, koffi.array('void *', length)) as Pointer[]; // as many as it says
}
