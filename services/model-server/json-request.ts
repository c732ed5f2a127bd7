import type { IncomingMessage } from 'node:http';
import type { z } from 'zod';
import { OpenAiError } from './openai-error.ts';

const MAX_BODY_BYTES = 20 * 1024 * 1024;

/**
 * Reads and validates a JSON body. Throws 413 if it is too large, and 400, naming the first invalid field, if it is
 * malformed.
 */
export async function readJson<Schema extends z.ZodType>(
  request: IncomingMessage,
  schema: Schema,
): Promise<z.infer<Schema>> {
  const result = schema.safeParse(parse(await readBody(request)));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const param = issue?.path.join('.') ?? '';
  throw new OpenAiError(
    400,
    param ? `${param}: ${issue?.message}` : (issue?.message ?? 'The request body is invalid.'),
    {
      ...(param && { param }),
    },
  );
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request) {
    sizeBytes += chunk.length;
    // Reads a body that is too large to its end: a client that is disconnected while it sends never sees the 413.
    if (sizeBytes <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  if (sizeBytes > MAX_BODY_BYTES) {
    throw new OpenAiError(
      413,
      `The request body is larger than ${MAX_BODY_BYTES} bytes. Send fewer texts in one request.`,
    );
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new OpenAiError(400, 'The request body is not valid JSON.');
  }
}
