import type { E5File } from './e5-file.ts';
import { createConstant, createNode, encodeModel, floatAttribute, integerAttribute } from './onnx-graph.ts';
import type { Field } from './protobuf.ts';
import { multiplyIntegers, quantizeInput } from './quantized-graph.ts';

const BIGGEST_INT8 = 127;

/**
 * Writes the encoder as an ONNX graph from the sums of a text's embeddings, [1, tokens, hidden], to the vectors of its
 * tokens. The embedding table is not a part of it, because a text needs few of its rows. Matrix products run in int8,
 * because weights of 4 bits with a scale for each block take twice the time in onnxruntime.
 * @param float names of the products that run in floats; none by default
 */
export function writeE5Graph(file: E5File, float: readonly string[] = []): Uint8Array {
  const { hidden, layers, heads, epsilon } = file;
  const constants: Field[] = [];
  const nodes: Field[] = [];
  const rounded = new Set<string>();

  function constant(tensor: string): string {
    constants.push(createConstant(tensor, file.floats(tensor)));
    return tensor;
  }

  function node(opType: string, inputs: string[], output: string, attributes: Field[] = []): string {
    nodes.push(createNode(opType, inputs, [output], attributes));
    return output;
  }

  function product(input: string, name: string): string {
    const bias = constant(`${name}.b`);
    const rows = file.rows(`${name}.w`);
    const columns = file.floats(bias).length;
    if (float.includes(name)) multiplyFloats(input, name, rows, columns);
    else multiplyRounded(input, name, rows, columns);
    return node('Add', [`${name}.product`, bias], name);
  }

  function multiplyFloats(input: string, name: string, rows: Float32Array, columns: number): void {
    constants.push(createConstant(`${name}.w`, rows, [columns, rows.length / columns]));
    const weight = node('Transpose', [`${name}.w`], `${name}.columns`);
    node('MatMul', [input, weight], `${name}.product`);
  }

  function multiplyRounded(input: string, name: string, rows: Float32Array, columns: number): void {
    const weight = { quantized: `${name}.w`, scale: `${name}.scale` };
    const { numbers, scales } = roundColumns(rows, columns);
    constants.push(createConstant(weight.quantized, numbers, [rows.length / columns, columns]));
    constants.push(createConstant(weight.scale, scales));
    if (!rounded.has(input)) nodes.push(...quantizeInput(input));
    rounded.add(input);
    nodes.push(...multiplyIntegers(input, weight, `${name}.product`));
  }

  function addAndNormalize(input: string, added: string, name: string, output: string): string {
    const inputs = [input, added, constant(`${name}.w`), constant(`${name}.b`)];
    return node('SkipLayerNormalization', inputs, output, [floatAttribute('epsilon', epsilon)]);
  }

  let state = node('LayerNormalization', ['embeddings', constant('emb.ln.w'), constant('emb.ln.b')], 'embedded', [
    floatAttribute('epsilon', epsilon),
  ]);
  for (let layer = 0; layer < layers; layer += 1) {
    const name = `l${layer}`;
    const projected = ['q', 'k', 'v'].map((part) => product(state, `${name}.${part}`));
    const attended = node('MultiHeadAttention', projected, `${name}.attended`, [integerAttribute('num_heads', heads)]);
    const middle = addAndNormalize(state, product(attended, `${name}.ao`), `${name}.aln`, `${name}.middle`);
    const active = node('Gelu', [product(middle, `${name}.fi`)], `${name}.active`);
    const output = layer === layers - 1 ? 'last_hidden_state' : `${name}.output`;
    state = addAndNormalize(middle, product(active, `${name}.fo`), `${name}.oln`, output);
  }
  const shape = [1, 'tokens', hidden];
  return encodeModel({ nodes, constants, input: { name: 'embeddings', shape }, output: { name: state, shape } });
}

/** Turns the rows of a matrix into columns of int8, each with a scale of its own. */
function roundColumns(rows: Float32Array, columns: number): { numbers: Int8Array; scales: Float32Array } {
  const length = rows.length / columns;
  const numbers = new Int8Array(rows.length);
  const scales = new Float32Array(columns);
  for (let column = 0; column < columns; column += 1) {
    const row = rows.subarray(column * length, (column + 1) * length);
    const scale = row.reduce((most, weight) => Math.max(most, Math.abs(weight)), 0) / BIGGEST_INT8;
    scales[column] = scale;
    row.forEach((weight, index) => {
      numbers[index * columns + column] = Math.round(weight / scale);
    });
  }
  return { numbers, scales };
}
