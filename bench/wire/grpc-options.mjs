/** The same for the bare server and for clients. */
export const ANY_SIZE = {
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  'grpc-node.flow_control_window': 4 * 1024 * 1024,
};

/** A message is its bytes. */
export const asItIs = (bytes) => bytes;
