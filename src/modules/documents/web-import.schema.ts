import { z } from 'zod';
import { isOneLine } from '#src/domain/text/plain-text.ts';
import { pasteDocumentBody } from './documents.schema.ts';

/** Signed addresses are long; longer ones no server takes. */
const maxUrlLength = 8_192;

export const importFromUrlBody = z.strictObject({
  url: z
    .string()
    .max(maxUrlLength)
    .trim()
    .refine((text) => URL.canParse(text) && isOneLine(text), 'must be an address like https://example.com/page')
    .describe('http or https, of the public internet, without user and password.'),
  target_folder_id: pasteDocumentBody.shape.target_folder_id.describe('Your personal root when omitted.'),
  name: pasteDocumentBody.shape.name
    .optional()
    .describe('As the server calls the file, the title of the page, or a part of the address when omitted.'),
});
