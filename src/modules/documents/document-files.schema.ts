import { z } from 'zod';

export const downloadUrlSchema = z.strictObject({
  url: z.url().describe('Gives the file without a token, with `Range`; for whoever has it.'),
  expires_in: z.int().describe('Seconds for which it does.'),
});
