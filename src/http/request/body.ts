import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { HttpRoute, PathParams } from '../routing/route.ts';
import { isFormRequest, receiveForm } from './upload.ts';
import { requireInputStorableInPostgres, validateInput } from './validation.ts';

const MiB = 1024 * 1024;
const MS_PER_MIB = 30_000;
/**
 * Maximum number of fields and elements of a JSON body. The largest valid body has half as many. Without this limit a
 * body of 1 MiB could hold half a million, and each takes microseconds to validate.
 */
const maxValues = 10_000;
const jsonType = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/**
 * Reads a JSON body; a missing body is `{}`. Throws `payload_too_large`, `request_timeout` after 30 seconds per MiB of
 * the limit, `unsupported_media_type` and `malformed_request`.
 */
export async function readJsonBody(req: IncomingMessage, limitBytes = MiB): Promise<unknown> {
  const timeoutMs = MS_PER_MIB * Math.max(1, limitBytes / MiB);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const detail = `The body has to arrive within ${Math.round(timeoutMs / 1_000)} seconds.`;
    late.reject(appError('request_timeout', { detail }));
  }, timeoutMs);
  const text = await Promise.race([readText(req, limitBytes), late.promise]).finally(() => clearTimeout(timer));
  if (text === '') return {};
  const type = req.headers['content-type'] ?? '';
  if (!jsonType.test(type)) {
    throw appError('unsupported_media_type', { detail: 'The body must have the type application/json.' });
  }
  return requireInputStorableInPostgres(parseJson(text));
}

/** Counts the values of a JSON text without parsing it: by commas and opening brackets outside of strings. */
function hasMoreValues(json: Buffer, limit: number): boolean {
  let values = 0;
  let isInString = false;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === 0x22) isInString = !isInString;
    else if (isInString) {
      if (byte === 0x5c) at += 1;
    } else if (byte === 0x2c || byte === 0x5b || byte === 0x7b) {
      values += 1;
      if (values > limit) return true;
    }
  }
  return false;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw appError('malformed_request', { detail: 'The body is not valid JSON.' });
  }
}

async function readText(req: IncomingMessage, limitBytes: number): Promise<string> {
  const encoding = req.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity') {
    throw appError('unsupported_media_type', { detail: 'Compressed bodies are not supported.' });
  }
  const tooLarge = () => appError('payload_too_large', { detail: `The body may have at most ${limitBytes} bytes.` });
  if (Number(req.headers['content-length'] ?? 0) > limitBytes) throw tooLarge();

  const parts: Buffer[] = [];
  let size = 0;
  try {
    // `destroyOnReturn: false` keeps the socket open when the loop ends early, because the client still has to read the
    // error response.
    for await (const part of req.iterator({ destroyOnReturn: false })) {
      size += part.length;
      if (size > limitBytes) throw tooLarge();
      parts.push(part);
    }
    const bytes = Buffer.concat(parts);
    if (hasMoreValues(bytes, maxValues)) {
      throw appError('payload_too_large', { detail: `The body may have at most ${maxValues} fields and elements.` });
    }
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) throw appError('malformed_request', { detail: 'The body is not valid UTF-8.' });
    if (req.destroyed && !req.complete)
      throw appError('malformed_request', { detail: 'The body ended before it was complete.' });
    throw error;
  }
}

type Schema = z.core.JSONSchema.BaseSchema;

const jsonSchemas = new WeakMap<z.ZodType, Schema>();

/** Removes the fields that the schema marks as secret: `.meta({ writeOnly: true })`. */
export function omitSecretFields(schema: z.ZodType, sent: unknown): unknown {
  let json = jsonSchemas.get(schema);
  if (json === undefined) {
    json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' });
    jsonSchemas.set(schema, json);
  }
  return strip(json, json, sent);
}

function strip(root: Schema, schema: Schema, sent: unknown): unknown {
  if (sent === null || typeof sent !== 'object') return sent;
  const alternatives = alternativesOf(root, schema);
  if (Array.isArray(sent)) {
    const items = alternatives.map(({ items }) => items).filter(isSchema);
    return sent.map((item) => strip(root, { anyOf: items }, item));
  }
  const fields = Object.entries(sent).flatMap(([name, value]) => {
    const field = { anyOf: alternatives.map(({ properties }) => properties?.[name]).filter(isSchema) };
    const isSecret = alternativesOf(root, field).some(({ writeOnly }) => writeOnly === true);
    return isSecret ? [] : [[name, strip(root, field, value)]];
  });
  return Object.fromEntries(fields);
}

function alternativesOf(root: Schema, schema: Schema): Schema[] {
  const { anyOf = [], oneOf = [], allOf = [], $ref } = schema;
  const target = $ref === undefined ? undefined : root.$defs?.[$ref.replace('#/$defs/', '')];
  const others = [...anyOf, ...oneOf, ...allOf, target].filter(isSchema);
  return [schema, ...others.flatMap((other) => alternativesOf(root, other))];
}

function isSchema(schema: unknown): schema is Schema {
  return typeof schema === 'object' && schema !== null && !Array.isArray(schema);
}

export type ReceivedRequestBody = {
  /** What makes requests with one `Idempotency-Key` equal: fields without secrets, and the hash of the file. */
  identity: () => unknown;
  hasSecrets: () => boolean;
  parse: () => unknown;
  discard: () => Promise<void>;
};

const publicLimitBytes = 16 * 1024;
const nothingToDiscard = async () => {};

export async function receiveRequestBody(
  route: HttpRoute,
  req: IncomingMessage,
  actor: RequestActor | undefined,
  params: PathParams,
): Promise<ReceivedRequestBody> {
  const spec = route.body;
  if (spec === undefined)
    return { identity: () => null, hasSecrets: () => false, parse: () => undefined, discard: nothingToDiscard };
  if (!('kind' in spec) || (spec.kind !== 'multipart' && !isFormRequest(req))) {
    const schema = 'kind' in spec ? spec.fields : spec;
    const json = await readJsonBody(
      req,
      route.bodyLimitBytes ?? (route.access === 'public' ? publicLimitBytes : undefined),
    );
    return {
      ...identified(schema, json),
      parse: () => validateInput(schema, json),
      discard: nothingToDiscard,
    };
  }
  if (spec.kind === 'form_or_json') {
    const { fields } = await receiveForm(req, null);
    return {
      ...identified(spec.fields, fields),
      parse: () => validateInput(spec.fields, fields),
      discard: nothingToDiscard,
    };
  }
  if (actor === undefined)
    throw new Error(`route ${route.operationId} takes an upload, so its access must not be 'public'`);
  const { fields, file } = await receiveForm(req, {
    store: (upload) => spec.store(actor, upload, params),
    discard: (stored) => spec.discard(stored),
    isFileOptional: spec.kind === 'multipart_or_json',
  });
  const ofFields = identified(spec.fields, fields);
  return {
    ...ofFields,
    identity: () => ({ ...Object(ofFields.identity()), file: file?.sha256, fileName: file?.fileName }),
    parse: () => ({ ...Object(validateInput(spec.fields, fields)), file }),
    discard: async () => {
      if (file !== undefined) await spec.discard(file);
    },
  };
}

function identified(schema: z.ZodType, sent: unknown): Pick<ReceivedRequestBody, 'identity' | 'hasSecrets'> {
  const identity = () => omitSecretFields(schema, sent);
  return { identity, hasSecrets: () => !isDeepStrictEqual(identity(), sent) };
}
