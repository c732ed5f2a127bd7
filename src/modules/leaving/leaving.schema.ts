import { z } from 'zod';

export const deleteAccountBody = z.strictObject({
  password: z
    .string()
    .min(1)
    .max(1_024)
    .optional()
    .meta({ description: 'Required where the account has one.', writeOnly: true }),
});
