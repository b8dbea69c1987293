import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { onnxTypeOf, type Datatype } from '../../../shared/tensor/datatype.ts';
import { bytes, float, int, message, type Field } from './wire.ts';

/** A graph input or output. */
export interface OnnxValue {
  readonly name: string;
  readonly datatype: Datatype;
  /** -1 for a dynamic dimension without a name, a text for one with a name; absent for a shape that is not declared. */
  readonly shape?: readonly (number | string)[];
  /** A sequence of such tensors instead of one. */
  readonly sequence?: boolean;
}

/** Constant data of a graph. `data` is little-endian; BYTES are given as `strings`. */
export interface OnnxInitializer {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data?: Uint8Array;
  readonly strings?: readonly (string | Uint8Array)[];
  /** Location of external data, relative to the model file, instead of `data`. */
  readonly external?: string;
}

export type OnnxAttribute =
  | { readonly int: number }
  | { readonly float: number }
  | { readonly ints: readonly number[] }
  | { readonly string: string }
  | { readonly tensor: OnnxInitializer }
  | { readonly graph: OnnxGraph };

export interface OnnxNode {
  readonly op: string;
  /** Default ONNX's own. */
  readonly domain?: string;
  /** '' for an optional input that is left out. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Readonly<Record<string, OnnxAttribute>>;
}

export interface OnnxGraph {
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
  readonly nodes: readonly OnnxNode[];
  readonly initializers?: readonly OnnxInitializer[];
}

export interface OnnxModel extends OnnxGraph {
  /** Default 17. */
  readonly opset?: number;
  /** Domains of its operators besides ONNX's own, each in version 1. */
  readonly domains?: readonly string[];
}

const IR_VERSION = 8;

/** Writes an ONNX file and the folders on the way to it. */
export function writeModel(path: string, model: OnnxModel): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, encodeModel(model));
}

/** The bytes of an ONNX file. Field numbers are those of onnx.proto. */
export function encodeModel(model: OnnxModel): Buffer {
  const opset = message([bytes(1, ''), int(2, model.opset ?? 17)]);
  const others = (model.domains ?? []).map((domain) => bytes(8, message([bytes(1, domain), int(2, 1)])));
  const graph = bytes(7, encodeGraph(model));
  return message([int(1, IR_VERSION), bytes(2, 'millrace-tests'), graph, bytes(8, opset), ...others]);
}

function encodeGraph(graph: OnnxGraph): Buffer {
  return message([
    ...graph.nodes.map((node) => bytes(1, encodeNode(node))),
    bytes(2, 'graph'),
    ...(graph.initializers ?? []).map((tensor) => bytes(5, encodeTensor(tensor))),
    ...graph.inputs.map((value) => bytes(11, encodeValue(value))),
    ...graph.outputs.map((value) => bytes(12, encodeValue(value))),
  ]);
}

function encodeNode(node: OnnxNode): Buffer {
  return message([
    ...node.inputs.map((name) => bytes(1, name)),
    ...node.outputs.map((name) => bytes(2, name)),
    bytes(4, node.op),
    ...Object.entries(node.attributes ?? {}).map(([name, value]) => bytes(5, encodeAttribute(name, value))),
    ...(node.domain === undefined ? [] : [bytes(7, node.domain)]),
  ]);
}

function encodeAttribute(name: string, value: OnnxAttribute): Buffer {
  return message([bytes(1, name), ...attributeFields(value)]);
}

function attributeFields(value: OnnxAttribute): Field[] {
  if ('float' in value) return [float(2, value.float), int(20, 1)];
  if ('int' in value) return [int(3, value.int), int(20, 2)];
  if ('string' in value) return [bytes(4, value.string), int(20, 3)];
  if ('tensor' in value) return [bytes(5, encodeTensor(value.tensor)), int(20, 4)];
  if ('graph' in value) return [bytes(6, encodeGraph(value.graph)), int(20, 5)];
  return [...value.ints.map((item) => int(8, item)), int(20, 7)];
}

function encodeTensor(tensor: OnnxInitializer): Buffer {
  return message([
    ...tensor.shape.map((dim) => int(1, dim)),
    int(2, onnxTypeOf(tensor.datatype)),
    ...(tensor.strings ?? []).map((text) => bytes(6, text)),
    bytes(8, tensor.name),
    ...(tensor.data ? [bytes(9, tensor.data)] : []),
    ...(tensor.external === undefined ? [] : externalFields(tensor.external)),
  ]);
}

function externalFields(location: string): Field[] {
  return [bytes(13, message([bytes(1, 'location'), bytes(2, location)])), int(14, 1)];
}

function encodeValue(value: OnnxValue): Buffer {
  const tensor = message([
    int(1, onnxTypeOf(value.datatype)),
    ...(value.shape ? [bytes(2, message(value.shape.map((dim) => bytes(1, encodeDim(dim)))))] : []),
  ]);
  const tensorType = bytes(1, tensor);
  const type = value.sequence ? bytes(4, message([bytes(1, tensorType)])) : tensorType;
  return message([bytes(1, value.name), bytes(2, type)]);
}

function encodeDim(dim: number | string): Buffer {
  if (typeof dim === 'string') return message([bytes(2, dim)]);
  return dim < 0 ? message([]) : message([int(1, dim)]);
}
