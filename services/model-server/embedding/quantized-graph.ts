import {
  bytesOf,
  decodeMessage,
  encodeMessage,
  type Field,
  messageField,
  textField,
  textOf,
  varintField,
} from './protobuf.ts';

/** Field numbers of onnx.proto (ModelProto, GraphProto, NodeProto, AttributeProto). */
const MODEL = { graph: 7 };
const GRAPH = { node: 1, valueInfo: 13 };
const NODE = { input: 1, output: 2, name: 3, opType: 4, attribute: 5 };
const ATTRIBUTE = { name: 1, integer: 3, type: 20 };
const ATTRIBUTE_TYPE_INTEGER = 2;
const FLOAT = 1;

type Node = { opType: string; inputs: string[]; outputs: string[]; field: Field };
/** A weight that is stored as int8 and scaled to float before use: `Mul(Cast(quantized), scale)`. */
type ScaledWeight = { quantized: string; scale: string };

/**
 * Makes an int8 model compute in int8. Some exporters store int8 weights but turn them back into floats first
 * (`MatMul(x, Mul(Cast(weight), scale))`), which saves disk and no time. Every such group becomes
 * `MatMulInteger` over `DynamicQuantizeLinear(x)`, scaled afterwards: the same weights, activations rounded to 8 bits.
 * Tables that are looked up (`Gather`) are looked up as int8 and only the rows found are scaled.
 *
 * @param model bytes of an ONNX ModelProto
 * @returns bytes of the rewritten model and the number of matrix products that now run in int8
 */
export function quantizeGraph(model: Uint8Array): { model: Uint8Array; integerProducts: number } {
  let integerProducts = 0;
  const fields = decodeMessage(model).map((field) => {
    if (field.number !== MODEL.graph) return field;
    const graph = decodeMessage(bytesOf(field));
    const rewritten = rewriteNodes(graph.filter(({ number }) => number === GRAPH.node).map(readNode));
    integerProducts = rewritten.integerProducts;
    // Shape hints are left out: they are optional and still name the float weights that are gone.
    const rest = graph.filter(({ number }) => number !== GRAPH.node && number !== GRAPH.valueInfo);
    return messageField(MODEL.graph, [...rewritten.nodes, ...rest]);
  });
  return { model: encodeMessage(fields), integerProducts };
}

function rewriteNodes(nodes: Node[]): { nodes: Field[]; integerProducts: number } {
  const { weights, castOutputs } = findScaledWeights(nodes);
  const quantizedInputs = new Set<string>();
  let integerProducts = 0;

  const rewritten = nodes.flatMap((node): Field[] => {
    const [output = ''] = node.outputs;
    if (weights.has(output) || castOutputs.has(output)) return [];

    const [first = '', second = ''] = node.inputs;
    const table = node.opType === 'Gather' ? weights.get(first) : undefined;
    if (table) return gatherRows(node, table, second, output);

    const weight = node.opType === 'MatMul' ? weights.get(second) : undefined;
    if (!weight) return [node.field];
    integerProducts += 1;
    // Query, key and value share one input, which is quantized once.
    const quantizeInput = quantizedInputs.has(first)
      ? []
      : [createNode('DynamicQuantizeLinear', [first], [`${first}_u8`, `${first}_scale`, `${first}_zero`])];
    quantizedInputs.add(first);
    return [...quantizeInput, ...multiplyIntegers(first, weight, output)];
  });
  return { nodes: rewritten, integerProducts };
}

function findScaledWeights(nodes: Node[]): { weights: Map<string, ScaledWeight>; castOutputs: Set<string> } {
  const producers = new Map(nodes.flatMap((node) => node.outputs.map((output) => [output, node])));
  const weights = new Map<string, ScaledWeight>();
  const castOutputs = new Set<string>();
  for (const node of nodes) {
    const [float = '', scale = ''] = node.inputs;
    const cast = producers.get(float);
    const quantized = cast?.inputs[0];
    // Neither is computed by another node, so both are stored in the file.
    const isStored = quantized !== undefined && !producers.has(quantized) && !producers.has(scale);
    if (node.opType !== 'Mul' || cast?.opType !== 'Cast' || !isStored) continue;
    for (const output of node.outputs) weights.set(output, { quantized, scale });
    castOutputs.add(float);
  }
  return { weights, castOutputs };
}

function multiplyIntegers(input: string, weight: ScaledWeight, output: string): Field[] {
  return [
    createNode('MatMulInteger', [`${input}_u8`, weight.quantized, `${input}_zero`], [`${output}_i32`]),
    createNode('Cast', [`${output}_i32`], [`${output}_f32`], [integerAttribute('to', FLOAT)]),
    createNode('Mul', [`${input}_scale`, weight.scale], [`${output}_scale`]),
    createNode('Mul', [`${output}_f32`, `${output}_scale`], [output]),
  ];
}

function gatherRows(gather: Node, table: ScaledWeight, indices: string, output: string): Field[] {
  const attributes = decodeMessage(bytesOf(gather.field)).filter(({ number }) => number === NODE.attribute);
  return [
    createNode('Gather', [table.quantized, indices], [`${output}_i8`], attributes),
    createNode('Gather', [table.scale, indices], [`${output}_scale`], attributes),
    createNode('Cast', [`${output}_i8`], [`${output}_f32`], [integerAttribute('to', FLOAT)]),
    createNode('Mul', [`${output}_f32`, `${output}_scale`], [output]),
  ];
}

function readNode(field: Field): Node {
  const fields = decodeMessage(bytesOf(field));
  const texts = (number: number) => fields.filter((part) => part.number === number).map(textOf);
  return { opType: texts(NODE.opType)[0] ?? '', inputs: texts(NODE.input), outputs: texts(NODE.output), field };
}

function createNode(opType: string, inputs: string[], outputs: string[], attributes: Field[] = []): Field {
  return messageField(GRAPH.node, [
    ...inputs.map((input) => textField(NODE.input, input)),
    ...outputs.map((output) => textField(NODE.output, output)),
    textField(NODE.name, `${opType}_${outputs[0]}`),
    textField(NODE.opType, opType),
    ...attributes,
  ]);
}

function integerAttribute(name: string, value: number): Field {
  return messageField(NODE.attribute, [
    textField(ATTRIBUTE.name, name),
    varintField(ATTRIBUTE.integer, value),
    varintField(ATTRIBUTE.type, ATTRIBUTE_TYPE_INTEGER),
  ]);
}
