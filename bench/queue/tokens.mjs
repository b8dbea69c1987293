/** A short sentence for the model that keeps a processor busy, in the form of a request's inputs. */
export const TOKENS = ['input_ids', 'attention_mask', 'token_type_ids'].map((name) => {
  const data = Buffer.from(new BigInt64Array(16).fill(name === 'token_type_ids' ? 0n : 1n).buffer);
  return { name, datatype: 'INT64', shape: [1, 16], data };
});
