import { createConstant, createNode, FLOAT, GRAPH, integerAttribute, MODEL, NODE } from './onnx-graph.ts';
import { bytesOf, decodeMessage, encodeMessage, type Field, messageField, textOf } from './protobuf.ts';

const TOKEN_IDS = 'input_ids';
/**
 * Names of the factors by which token rows are multiplied before and after a matrix product, shape [texts, tokens, 1].
 */
const LOUD = { down: 'loud_token_down', up: 'loud_token_up' };

type Node = { opType: string; inputs: string[]; outputs: string[]; field: Field };
/** A weight that is stored as int8 and scaled to float before use: `Mul(Cast(quantized), scale)`. */
type ScaledWeight = { quantized: string; scale: string };

/** Exceptions where 8-bit rounding costs too much accuracy. A matrix product is named by the module of its bias. */
export type GraphPrecision = {
  float: readonly string[];
  /**
   * An outlier token, whose activations are `factor` times those of the other tokens and would leave them few of the
   * 255 steps. In these products it is divided by the factor before and multiplied by it after.
   */
  loudToken: { id: number; factor: number; products: readonly string[] };
};

/**
 * Makes an int8 ONNX model compute in int8. Some exporters store int8 weights but convert them to float first
 * (`MatMul(x, Mul(Cast(weight), scale))`), which saves disk space and no time. Every such group becomes `MatMulInteger`
 * over `DynamicQuantizeLinear(x)`, scaled afterwards: the same weights, with activations rounded to 8 bits. Embedding
 * tables (`Gather`) are read as int8, and only the rows found are scaled.
 * @param model bytes of an ONNX ModelProto
 * @param precision products that are not quantized plainly; none by default
 * @returns bytes of the rewritten model and the number of matrix products that now run in int8
 * @throws when the model does not have a product that `precision` names
 */
export function quantizeGraph(
  model: Uint8Array,
  precision?: GraphPrecision,
): { model: Uint8Array; integerProducts: number } {
  let integerProducts = 0;
  const fields = decodeMessage(model).map((field) => {
    if (field.number !== MODEL.graph) return field;
    const graph = decodeMessage(bytesOf(field));
    const nodes = graph.filter(({ number }) => number === GRAPH.node).map(readNode);
    const rewritten = rewriteNodes(nodes, precision);
    integerProducts = rewritten.integerProducts;
    // Drops the optional shape hints, because they still name the float weights that were removed.
    const rest = graph.filter(({ number }) => number !== GRAPH.node && number !== GRAPH.valueInfo);
    const loudToken = precision ? factorsOf(precision.loudToken) : [];
    return messageField(MODEL.graph, [...loudToken, ...rewritten.nodes, ...rest]);
  });
  return { model: encodeMessage(fields), integerProducts };
}

function rewriteNodes(nodes: Node[], precision?: GraphPrecision): { nodes: Field[]; integerProducts: number } {
  const products = findProducts(nodes);
  const outputsOf = (modules: readonly string[] = []) =>
    new Set(
      modules.map((module) => {
        const product = products.get(module);
        if (!product) throw new Error(`The ONNX model has no matrix product for the module ${module}.`);
        return product.outputs[0];
      }),
    );
  const inFloat = outputsOf(precision?.float);
  const withLoudToken = outputsOf(precision?.loudToken.products);
  const { weights, castOutputs } = findScaledWeights(nodes, inFloat);
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
    if (!withLoudToken.has(output)) return [...quantize(first), ...multiplyIntegers(first, weight, output)];
    return [
      createNode('Mul', [first, LOUD.down], [`${output}_input`]),
      ...quantize(`${output}_input`),
      ...multiplyIntegers(`${output}_input`, weight, `${output}_even`),
      createNode('Mul', [`${output}_even`, LOUD.up], [output]),
    ];
  });
  return { nodes: rewritten, integerProducts };

  function quantize(input: string): Field[] {
    if (quantizedInputs.has(input)) return [];
    quantizedInputs.add(input);
    return quantizeInput(input);
  }
}

/** Finds matrix products by the module whose bias is added to them, because their own names are generated. */
function findProducts(nodes: Node[]): Map<string, Node> {
  const products = new Map(nodes.flatMap((node) => (node.opType === 'MatMul' ? [[node.outputs[0], node]] : [])));
  return new Map(
    nodes.flatMap(({ opType, inputs: [sum = '', bias = ''] }) => {
      const product = opType === 'Add' && bias.endsWith('.bias') ? products.get(sum) : undefined;
      return product ? [[bias.slice(0, -'.bias'.length), product]] : [];
    }),
  );
}

function factorsOf({ id, factor }: GraphPrecision['loudToken']): Field[] {
  const names = { id: 'loud_token_id', axis: 'loud_token_axis', is: 'is_loud_token', column: 'is_loud_token_column' };
  const floats = { one: 'loud_token_one', divisor: 'loud_token_divisor', factor: 'loud_token_factor' };
  return [
    createConstant(names.id, BigInt64Array.of(BigInt(id))),
    createConstant(names.axis, BigInt64Array.of(2n)),
    createConstant(floats.one, Float32Array.of(1)),
    createConstant(floats.divisor, Float32Array.of(1 / factor)),
    createConstant(floats.factor, Float32Array.of(factor)),
    createNode('Equal', [TOKEN_IDS, names.id], [names.is]),
    createNode('Unsqueeze', [names.is, names.axis], [names.column]),
    createNode('Where', [names.column, floats.divisor, floats.one], [LOUD.down]),
    createNode('Where', [names.column, floats.factor, floats.one], [LOUD.up]),
  ];
}

function findScaledWeights(
  nodes: Node[],
  inFloat: ReadonlySet<string | undefined>,
): { weights: Map<string, ScaledWeight>; castOutputs: Set<string> } {
  const keptWeights = new Set(nodes.flatMap(({ inputs, outputs }) => (inFloat.has(outputs[0]) ? inputs.slice(1) : [])));
  const producers = new Map(nodes.flatMap((node) => node.outputs.map((output) => [output, node])));
  const weights = new Map<string, ScaledWeight>();
  const castOutputs = new Set<string>();
  for (const node of nodes) {
    const [float = '', scale = ''] = node.inputs;
    const cast = producers.get(float);
    const quantized = cast?.inputs[0];
    // A name that no node produces is an initializer stored in the file.
    const isStored = quantized !== undefined && !producers.has(quantized) && !producers.has(scale);
    if (node.opType !== 'Mul' || cast?.opType !== 'Cast' || !isStored) continue;
    if (node.outputs.some((output) => keptWeights.has(output))) continue;
    for (const output of node.outputs) weights.set(output, { quantized, scale });
    castOutputs.add(float);
  }
  return { weights, castOutputs };
}

/** Rounds a tensor to 8 bits for `multiplyIntegers`. */
export function quantizeInput(input: string): Field[] {
  return [createNode('DynamicQuantizeLinear', [input], [`${input}_u8`, `${input}_scale`, `${input}_zero`])];
}

export function multiplyIntegers(input: string, weight: ScaledWeight, output: string): Field[] {
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
