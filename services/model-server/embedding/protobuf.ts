/**
 * Reads and writes the part of the protobuf wire format that ONNX files use. Fields that are not changed keep their
 * bytes, whether known or unknown.
 */

/** One protobuf field as encoded; `value` is a bigint for a varint and the raw bytes for every other wire type. */
export type Field = { number: number; wireType: WireType; value: bigint | Uint8Array };

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;
type WireType = typeof VARINT | typeof FIXED64 | typeof BYTES | typeof FIXED32;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function varintField(number: number, value: number): Field {
  return { number, wireType: VARINT, value: BigInt(value) };
}

export function textField(number: number, value: string): Field {
  return bytesField(number, encoder.encode(value));
}

export function messageField(number: number, fields: Field[]): Field {
  return bytesField(number, encodeMessage(fields));
}

export function bytesField(number: number, value: Uint8Array): Field {
  return { number, wireType: BYTES, value };
}

export function fixed32Field(number: number, float: number): Field {
  return { number, wireType: FIXED32, value: new Uint8Array(Float32Array.of(float).buffer) };
}

/** Throws if the field is not length-delimited. */
export function bytesOf(field: Field): Uint8Array {
  if (typeof field.value === 'bigint')
    throw new Error(`protobuf: field ${field.number} is a varint, not length-delimited`);
  return field.value;
}

export function textOf(field: Field): string {
  return decoder.decode(bytesOf(field));
}

/** Decodes a protobuf message. Throws if it ends inside a field or uses a wire type that proto3 does not have. */
export function decodeMessage(bytes: Uint8Array): Field[] {
  const fields: Field[] = [];
  let position = 0;

  const readVarint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[position];
      if (byte === undefined) throw new Error('protobuf: the message ends inside a varint');
      position += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const readBytes = (length: number): Uint8Array => {
    const end = position + length;
    if (end > bytes.length) throw new Error('protobuf: the message ends inside a field');
    const value = bytes.subarray(position, end);
    position = end;
    return value;
  };

  while (position < bytes.length) {
    const key = Number(readVarint());
    const number = key >>> 3;
    const wireType = key & 7;
    if (wireType === VARINT) fields.push({ number, wireType, value: readVarint() });
    else if (wireType === FIXED64) fields.push({ number, wireType, value: readBytes(8) });
    else if (wireType === BYTES) fields.push({ number, wireType, value: readBytes(Number(readVarint())) });
    else if (wireType === FIXED32) fields.push({ number, wireType, value: readBytes(4) });
    else throw new Error(`protobuf: wire type ${wireType} is not supported`);
  }
  return fields;
}

export function encodeMessage(fields: Field[]): Uint8Array {
  return Buffer.concat(fields.flatMap(encodeField));
}

function encodeField({ number, wireType, value }: Field): Uint8Array[] {
  const key = encodeVarint(BigInt((number << 3) | wireType));
  if (typeof value === 'bigint') return [key, encodeVarint(value)];
  return wireType === BYTES ? [key, encodeVarint(BigInt(value.length)), value] : [key, value];
}

function encodeVarint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}
