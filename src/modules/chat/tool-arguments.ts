import { z } from 'zod';
import type { Tool } from '#src/domain/agents/tools.ts';
import { visibleText } from '#src/domain/chat/context-blocks.ts';
import { toStorable } from '#src/domain/text/plain-text.ts';
import { appError } from '#src/errors.ts';

export type ToolArguments = Readonly<Record<string, unknown>>;

/** No tool takes as much; what a model writes beyond it is not even read. */
export const argumentCharacters = 4_000;

const anyArguments = z.record(z.string(), z.unknown());
const schemas = new WeakMap<Tool, z.ZodType>();

function schemaOf(tool: Tool): z.ZodType {
  const schema = schemas.get(tool) ?? z.fromJSONSchema(tool.parameters);
  schemas.set(tool, schema);
  return schema;
}

/** What a model wrote as arguments, checked against the tool's schema. Throws `tool_arguments_invalid`. */
export function readArguments(tool: Tool, json: string): ToolArguments {
  const parsed = schemaOf(tool).safeParse(anyArguments.safeParse(parse(json)).data);
  if (parsed.success) return storable(anyArguments.parse(parsed.data));
  const issues = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'arguments'}: ${message}`);
  throw appError('tool_arguments_invalid', { detail: issues.slice(0, 5).join('; ') });
}

/** The same for what a conversation can repeat: services refuse arguments that are no object of JSON. */
export function repeatable(json: string): string {
  return anyArguments.safeParse(parse(json)).success ? json || '{}' : '{}';
}

/** All texts in the arguments. */
export function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/**
 * A text and, of an address, what it is made of, as it is written and as it is meant: each step of its path, each of its
 * parameters, and its place with each of them alone.
 */
export function partsOf(text: string): string[] {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return [text];
  const place = `${url.origin}${url.pathname}`;
  const parameters = [...url.searchParams].flatMap(([name, value]) => [name, value, `${place}?${name}=${value}`]);
  const parts = [url.href, ...url.pathname.split('/'), ...parameters, url.hash.slice(1)];
  return [text, ...parts, ...parts.map(decoded)];
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A text as it is compared with others: whatever its cases and spaces, and without what nobody sees. */
export function comparable(text: string): string {
  return visibleText(text).toLowerCase().replace(/\s+/g, ' ').trim();
}

/** Undefined for what is no JSON, or too long. */
function parse(json: string): unknown {
  if (json.length > argumentCharacters) return undefined;
  try {
    return JSON.parse(json || '{}');
  } catch {
    return undefined;
  }
}

/** The escapes of JSON can say what no database stores. */
function storable(args: ToolArguments): ToolArguments {
  const text = JSON.stringify(args, (_key, part: unknown) => (typeof part === 'string' ? toStorable(part) : part));
  return anyArguments.parse(JSON.parse(text));
}
