import { z } from 'zod';
import { textSwitchField } from '#src/http/request/fields.ts';

export const downloadUrlQuery = z.strictObject({
  preview: textSwitchField.default(false).describe('Of the preview, in place of the original.'),
});

export const downloadUrlSchema = z.strictObject({
  url: z.url().describe('Gives the file without a token, with `Range`; for whoever has it.'),
  expires_in: z.int().describe('Seconds for which it does.'),
});
