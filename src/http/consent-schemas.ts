import { z } from 'zod';

// Common to the routes of consents for tools and for files.

/** Parameters of the callback. Providers send more than they have to. */
export const callbackQuery = z.looseObject({
  state: z.string().min(1).max(200),
  code: z.string().max(4_096).optional(),
  error: z.string().max(200).optional(),
  iss: z.string().max(500).optional(),
});

export const consentReturnSchema = z.strictObject({
  consent_code: z.string().describe('For the request that finishes the consent; works once, for its user'),
});

export const finishConsentBody = z
  .strictObject({ consent_code: z.string().min(1).max(8_192).meta({ writeOnly: true }) })
  .transform((body) => ({ consentCode: body.consent_code }));
