import {
  bytesField,
  encodeMessage,
  type Field,
  fixed32Field,
  messageField,
  textField,
  varintField,
} from './protobuf.ts';

/** Field numbers of onnx.proto (ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto). */
export const MODEL = { irVersion: 1, graph: 7, opsetImport: 8 };
export const GRAPH = { node: 1, name: 2, initializer: 5, input: 11, output: 12, valueInfo: 13 };
export const NODE = { input: 1, output: 2, name: 3, opType: 4, attribute: 5, domain: 7 };
const ATTRIBUTE = { name: 1, float: 2, integer: 3, type: 20 };
const ATTRIBUTE_TYPE = { float: 1, integer: 2 };
const TENSOR = { dimension: 1, type: 2, name: 8, bytes: 9 };
const ELEMENT_TYPE = { float: 1, int8: 3, int64: 7 };
export const FLOAT = ELEMENT_TYPE.float;
const OPSET = { domain: 1, version: 2 };
const VALUE_INFO = { name: 1, type: 2 };
const TYPE = { tensor: 1, elementType: 1, shape: 2, dimension: 1, value: 1, parameter: 2 };
/** Operators that onnxruntime adds to ONNX. */
const CONTRIB_DOMAIN = 'com.microsoft';
const CONTRIB = new Set(['Gelu', 'MultiHeadAttention', 'SkipLayerNormalization']);

export function createNode(opType: string, inputs: string[], outputs: string[], attributes: Field[] = []): Field {
  return messageField(GRAPH.node, [
    ...inputs.map((input) => textField(NODE.input, input)),
    ...outputs.map((output) => textField(NODE.output, output)),
    textField(NODE.name, `${opType}_${outputs[0]}`),
    textField(NODE.opType, opType),
    ...(CONTRIB.has(opType) ? [textField(NODE.domain, CONTRIB_DOMAIN)] : []),
    ...attributes,
  ]);
}

/** @param shape dimensions of the tensor; by default it is a vector */
export function createConstant(
  name: string,
  values: BigInt64Array | Float32Array | Int8Array,
  shape: readonly number[] = [values.length],
): Field {
  return messageField(GRAPH.initializer, [
    ...shape.map((dimension) => varintField(TENSOR.dimension, dimension)),
    varintField(TENSOR.type, elementTypeOf(values)),
    textField(TENSOR.name, name),
    bytesField(TENSOR.bytes, new Uint8Array(values.buffer, values.byteOffset, values.byteLength)),
  ]);
}

function elementTypeOf(values: BigInt64Array | Float32Array | Int8Array): number {
  if (values instanceof Int8Array) return ELEMENT_TYPE.int8;
  return values instanceof Float32Array ? ELEMENT_TYPE.float : ELEMENT_TYPE.int64;
}

export function integerAttribute(name: string, value: number): Field {
  return messageField(NODE.attribute, [
    textField(ATTRIBUTE.name, name),
    varintField(ATTRIBUTE.integer, value),
    varintField(ATTRIBUTE.type, ATTRIBUTE_TYPE.integer),
  ]);
}

export function floatAttribute(name: string, value: number): Field {
  return messageField(NODE.attribute, [
    textField(ATTRIBUTE.name, name),
    fixed32Field(ATTRIBUTE.float, value),
    varintField(ATTRIBUTE.type, ATTRIBUTE_TYPE.float),
  ]);
}

type FloatTensor = { name: string; shape: readonly (number | string)[] };

/** Encodes a graph of one input and one output. Its nodes are contrib operators of onnxruntime or of ONNX itself. */
export function encodeModel(graph: {
  nodes: Field[];
  constants: Field[];
  input: FloatTensor;
  output: FloatTensor;
}): Uint8Array {
  return encodeMessage([
    varintField(MODEL.irVersion, 9),
    ...[opsetImport('', 19), opsetImport(CONTRIB_DOMAIN, 1)],
    messageField(MODEL.graph, [
      ...graph.nodes,
      textField(GRAPH.name, 'encoder'),
      ...graph.constants,
      messageField(GRAPH.input, tensorInfo(graph.input)),
      messageField(GRAPH.output, tensorInfo(graph.output)),
    ]),
  ]);
}

function opsetImport(domain: string, version: number): Field {
  return messageField(MODEL.opsetImport, [textField(OPSET.domain, domain), varintField(OPSET.version, version)]);
}

function tensorInfo({ name, shape }: FloatTensor): Field[] {
  const dimensions = shape.map((dimension) =>
    messageField(TYPE.dimension, [
      typeof dimension === 'number' ? varintField(TYPE.value, dimension) : textField(TYPE.parameter, dimension),
    ]),
  );
  const tensor = [varintField(TYPE.elementType, ELEMENT_TYPE.float), messageField(TYPE.shape, dimensions)];
  return [textField(VALUE_INFO.name, name), messageField(VALUE_INFO.type, [messageField(TYPE.tensor, tensor)])];
}
