import type { IncomingMessage } from 'node:http';
import type { z } from 'zod';
import { OpenAiError } from './openai-error.ts';

const MAX_BODY_BYTES = 20 * 1024 * 1024;

/** Reads and checks a JSON body. Throws 413 beyond the limit and 400, naming the first wrong field, for a bad one. */
export async function readJson<Schema extends z.ZodType>(
  request: IncomingMessage,
  schema: Schema,
): Promise<z.infer<Schema>> {
  const result = schema.safeParse(parse(await readBody(request)));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const param = issue?.path.join('.') ?? '';
  throw new OpenAiError(400, param ? `${param}: ${issue?.message}` : (issue?.message ?? 'The body is not valid.'), {
    ...(param && { param }),
  });
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request) {
    sizeBytes += chunk.length;
    // Read to its end, though not kept: a client that is cut off while it sends never sees the answer.
    if (sizeBytes <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  if (sizeBytes > MAX_BODY_BYTES) {
    throw new OpenAiError(413, `The body is larger than ${MAX_BODY_BYTES} bytes. Send fewer texts in one request.`);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new OpenAiError(400, 'The body is not valid JSON.');
  }
}
