// One inference request of a given number of tensor bytes, as a body of HTTP and as a message of gRPC.
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { MODEL } from './identity-model.mjs';

export const HTTP_PATH = `/v2/models/${MODEL}/infer`;
export const GRPC_METHOD = '/inference.GRPCInferenceService/ModelInfer';

/** JSON first, the tensor behind it; the answer comes in the same form. */
export function httpRequest(tensor) {
  const input = { name: 'INPUT', datatype: 'FP32', shape: [1, tensor.length / 4] };
  const json = JSON.stringify({
    inputs: [{ ...input, parameters: { binary_data_size: tensor.length } }],
    parameters: { binary_data_output: true },
  });
  return { jsonLength: json.length, body: Buffer.concat([Buffer.from(json), tensor]) };
}

/** A ModelInferRequest with raw contents. */
export function grpcRequest(tensor) {
  const input = new BinaryWriter();
  input.tag(1, WireType.LengthDelimited).string('INPUT').tag(2, WireType.LengthDelimited).string('FP32');
  input
    .tag(3, WireType.LengthDelimited)
    .fork()
    .int64(1)
    .int64(tensor.length / 4)
    .join();
  const request = new BinaryWriter();
  request.tag(1, WireType.LengthDelimited).string(MODEL);
  request.tag(5, WireType.LengthDelimited).bytes(input.finish());
  request.tag(7, WireType.LengthDelimited).bytes(tensor);
  return Buffer.from(request.finish());
}
