import { operatorsOf } from './operators.ts';

/**
 * Operators whose work follows from the shapes of what they are given, whatever is in it. Not among them: loops and
 * branches, and those whose result is as large as an input says (Range, Expand, Tile, Resize, ConstantOfShape and more).
 */
const BY_SHAPE: ReadonlySet<string> = new Set(
  `Abs Add And ArgMax ArgMin ArrayFeatureExtractor AveragePool BatchNormalization Binarizer Cast Ceil Clip Concat Constant
  Conv ConvInteger ConvTranspose Cos DequantizeLinear Div DynamicQuantizeLinear Elu Equal Erf Exp Flatten Floor Gather Gelu
  Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual HardSigmoid HardSwish Identity InstanceNormalization LRN
  LayerNormalization LeakyRelu Less LessOrEqual LinearClassifier LinearRegressor Log LogSoftmax MatMul MatMulInteger Max
  MaxPool Mean Min Mul Neg Normalizer Not Or PRelu Pow QLinearConv QLinearMatMul QuantizeLinear Reciprocal ReduceL1 ReduceL2
  ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round Scaler Selu Shape
  Sigmoid Sign Sin Slice Softmax Softplus Split Sqrt Squeeze Sub Sum Tanh Transpose TreeEnsembleClassifier
  TreeEnsembleRegressor Unsqueeze Where Xor`.split(/\s+/),
);

/** Whether a run of the model takes the same time for all inputs of the same shapes; false where that cannot be told. */
export async function worksByShape(path: string): Promise<boolean> {
  const counts = await operatorsOf(path);
  return counts !== undefined && counts.size > 0 && [...counts.keys()].every((name) => BY_SHAPE.has(name));
}
