import { z } from 'zod';
import { OpenAiError } from '../openai-error.ts';

const objectOfTexts = z.object({
  type: z.literal('object'),
  properties: z.record(z.string(), z.object({ type: z.literal('string'), enum: z.undefined().optional() })),
});

/**
 * Fills a JSON schema whose fields are all texts with the given text. Throws 400 for any other schema, because the
 * extractive model cannot score or choose.
 */
export function fillSchema(schema: unknown, text: string): string {
  const { success, data } = objectOfTexts.safeParse(schema);
  if (!success) {
    throw new OpenAiError(400, 'extractive-1 cannot judge or choose: it only fills JSON schemas of plain texts.', {
      code: 'unsupported_response_format',
      param: 'response_format',
    });
  }
  return JSON.stringify(Object.fromEntries(Object.keys(data.properties).map((name) => [name, text])));
}
