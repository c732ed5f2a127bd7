import { z } from 'zod';
import { apiKeyScopes } from '#src/domain/access/api-keys.ts';
import { nameField, uuidField } from '#src/http/request/fields.ts';
import type { ApiKey } from './api-keys.model.ts';
import type { ApiKeyWithSecret } from './api-keys.service.ts';

const scopeField = z.enum(apiKeyScopes).meta({ id: 'ApiKeyScope' });

const expiryField = z.iso
  .datetime({ offset: true })
  .refine((time) => Date.parse(time) > Date.now(), 'must be in the future')
  .nullable()
  .describe('When the secret stops working. Null: never.');

const expiryOf = (expiresAt: string | null) => (expiresAt === null ? null : new Date(expiresAt));

export const createApiKeyBody = z
  .strictObject({
    name: nameField.describe('Shown as the author of what the key makes.'),
    scopes: z.array(scopeField).min(1).max(apiKeyScopes.length),
    expires_at: expiryField,
    team_ids: z.array(uuidField).max(50).default([]).describe('Teams whose content the key reads and adds to.'),
  })
  .transform(({ name, scopes, expires_at, team_ids }) => ({
    name,
    scopes: apiKeyScopes.filter((scope) => scopes.includes(scope)),
    expiresAt: expiryOf(expires_at),
    teamIds: [...new Set(team_ids)],
  }));

export const rotateApiKeyBody = z
  .strictObject({ expires_at: expiryField })
  .transform(({ expires_at }) => ({ expiresAt: expiryOf(expires_at) }));

const apiKeyFields = {
  id: uuidField.describe('Also the id of the user as whom the key acts: `created_by` of what it makes.'),
  name: z.string(),
  scopes: z.array(scopeField),
  team_ids: z.array(uuidField),
  hint: z.string().describe('The last four characters of the secret.'),
  expires_at: z.iso.datetime().nullable(),
  last_used_at: z.iso.datetime().nullable().describe('Up to a minute old. Null: the key was never used.'),
  created_by: uuidField,
  created_by_name: z.string(),
  created_at: z.iso.datetime(),
};

const apiKeySchema = z.strictObject(apiKeyFields).meta({ id: 'ApiKey' });

export const apiKeyListSchema = z.strictObject({ items: z.array(apiKeySchema), next_cursor: z.string().nullable() });

export const apiKeyWithSecretSchema = z
  .strictObject({
    ...apiKeyFields,
    secret: z.string().describe('Send it as `Authorization: Bearer <secret>`. It is not shown again.'),
  })
  .meta({ id: 'ApiKeyWithSecret' });

export function toApiKeyDto(key: ApiKey): z.input<typeof apiKeySchema> {
  return {
    id: key.id,
    name: key.name,
    scopes: key.scopes,
    team_ids: key.teamIds,
    hint: key.hint,
    expires_at: key.expiresAt?.toISOString() ?? null,
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
    created_by: key.createdBy,
    created_by_name: key.createdByName,
    created_at: key.createdAt.toISOString(),
  };
}

export function toApiKeyWithSecretDto(key: ApiKeyWithSecret): z.input<typeof apiKeyWithSecretSchema> {
  return { ...toApiKeyDto(key), secret: key.secret };
}
