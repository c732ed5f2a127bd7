import { z } from 'zod';
import {
  connectorProviderLabels,
  type OAuthConnectorProvider,
  oauthConnectorProviders,
} from '#src/domain/documents/connector-providers.ts';
import { nameField, uuidField } from '#src/http/request/fields.ts';
import type { RemoteFile } from '#src/ports/connectors.ts';
import type { ConnectionView, StoredS3Keys } from './connections.model.ts';

export const connectorProviders = [...oauthConnectorProviders, 'acme_s3'] as const;

const word = (maxLength: number) =>
  z
    .string()
    .min(1)
    .max(maxLength)
    .regex(/^[\x21-\x7e]*$/, 'must be one word of visible ASCII characters');

// Control characters, as ranges because some JSON Schema validators do not support \p{Cc}.
const controls = '\\u0000-\\u001f\\u007f-\\u009f';
const noControls = new RegExp(`^[^${controls}]*$`);

const plainPath = z
  .string()
  .max(4_000)
  .regex(noControls, 'must have no control characters')
  .transform((path) => path.split('/').filter(Boolean).join('/'));

export const authorizeConnectionQuery = z.strictObject({
  login_hint: z
    .string()
    .max(320)
    .optional()
    .describe('The account that the consent page suggests. Dropbox ignores it.'),
  site_id: word(500)
    .optional()
    .describe('The Microsoft Graph id of the site. Required for `acme_sharepoint`; other providers ignore it.'),
  return_to: z
    .string()
    .max(2_000)
    .optional()
    .describe(
      'Where the browser is redirected after the consent: a path of the frontend, or a URL of an allowed origin.',
    ),
});

export const authorizeConnectionSchema = z.strictObject({ authorize_url: z.url() });

export const connectorProviderListSchema = z.strictObject({
  providers: z.array(z.strictObject({ provider: z.enum(oauthConnectorProviders), label: z.string() })),
});

const syncField = z
  .strictObject({
    enabled: z.boolean(),
    interval_minutes: z.int().min(5).max(525_600).optional(),
    cron: z
      .string()
      .min(9)
      .max(100)
      .optional()
      .describe('Five fields, in UTC; runs must be at least five minutes apart.'),
    folder: plainPath.optional().describe('Path of the folder, as in browse; the root when omitted.'),
    target_folder_id: uuidField.nullable().optional().describe('Your personal root when omitted.'),
    delete_missing: z
      .boolean()
      .optional()
      .describe('Deletes documents whose files were deleted at the provider; false when omitted.'),
  })
  .refine(({ enabled, interval_minutes, cron }) => {
    const given = [interval_minutes, cron].filter((each) => each !== undefined).length;
    return given === 1 || (given === 0 && !enabled);
  }, 'needs either interval_minutes or cron');

const s3Fields = {
  bucket: word(63).regex(/^[a-z0-9][a-z0-9._-]+[a-z0-9]$/i, 'must be the name of a bucket'),
  prefix: plainPath
    .transform((prefix) => (prefix === '' ? '' : `${prefix}/`))
    .describe('Limits the connection to keys that begin with it; a slash is appended.'),
  region: word(60).regex(/^[a-z0-9-]+$/, 'must be the name of a region'),
  endpoint: z
    .url({ protocol: /^https?$/, error: 'must be an http(s):// address' })
    .max(500)
    .refine((text) => !/[?#]|\/\/[^/]*@/.test(text), 'must have no user, password, query or fragment')
    .transform((text) => text.replace(/\/+$/, ''))
    .describe('The endpoint of AWS when omitted.'),
  force_path_style: z
    .boolean()
    .describe('Puts the bucket into the path of URLs; defaults to true with an `endpoint`, else false.'),
};

const s3Credentials = z
  .strictObject({
    access_key_id: word(256),
    secret_access_key: word(256).meta({ writeOnly: true }),
    session_token: word(4_096).nullable().optional().meta({ writeOnly: true }),
  })
  .transform(
    (keys): StoredS3Keys => ({
      kind: 'keys',
      accessKeyId: keys.access_key_id,
      secretAccessKey: keys.secret_access_key,
      sessionToken: keys.session_token ?? null,
    }),
  );

export const createS3ConnectionBody = z.strictObject({
  display_name: nameField,
  credentials: s3Credentials.describe('Checked by listing the bucket, then stored encrypted.'),
  config: z.strictObject({
    bucket: s3Fields.bucket,
    prefix: s3Fields.prefix.optional(),
    region: s3Fields.region.optional(),
    endpoint: s3Fields.endpoint.optional(),
    force_path_style: s3Fields.force_path_style.optional(),
    sync: syncField.optional(),
  }),
});

export const changeConnectionBody = z.strictObject({
  display_name: nameField.optional(),
  credentials: s3Credentials.optional().describe('For `acme_s3` only; replaces all keys.'),
  config: z
    .strictObject({
      site_id: word(500).optional(),
      bucket: s3Fields.bucket.optional(),
      prefix: s3Fields.prefix.nullable().optional(),
      region: s3Fields.region.nullable().optional(),
      endpoint: s3Fields.endpoint.nullable().optional(),
      force_path_style: s3Fields.force_path_style.nullable().optional(),
      sync: syncField.nullable().optional(),
    })
    .optional()
    .describe('Omitted settings stay; null removes a setting. Other providers than `acme_s3` accept only `sync`.'),
});

export type ConnectionConfigChange = NonNullable<z.output<typeof changeConnectionBody>['config']>;

export const browseConnectionBody = z.strictObject({
  path: plainPath.default('').describe('Folder names separated by slashes; the root when omitted.'),
  page: z.string().min(1).max(16_000).optional().describe('`next_page` of the previous response for the same path.'),
});

const syncSchema = z
  .strictObject({
    enabled: z.boolean(),
    interval_minutes: z.int().optional(),
    cron: z.string().optional(),
    folder: z.string().optional(),
    target_folder_id: uuidField.nullable().optional(),
    delete_missing: z.boolean().optional(),
  })
  .meta({ id: 'ConnectionSync' });

const configSchema = z.strictObject({
  site_id: z.string().optional(),
  bucket: z.string().optional(),
  prefix: z.string().optional(),
  region: z.string().optional(),
  endpoint: z.string().optional(),
  force_path_style: z.boolean().optional(),
  sync: syncSchema.optional(),
});

export const connectionSchema = z
  .strictObject({
    id: uuidField,
    provider: z.enum(connectorProviders).meta({ id: 'ConnectorProvider' }),
    display_name: z.string(),
    status: z.enum(['pending', 'active', 'needs_reauth', 'error']),
    last_error: z.string().nullable().describe('Error code and message; null while the connection works.'),
    credentials_masked: z
      .record(z.string(), z.string())
      .describe('At most the first two and last four characters of each secret.'),
    config: configSchema,
    user_id: uuidField,
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'Connection' });

export const connectionListSchema = z.strictObject({ items: z.array(connectionSchema) });

export const finishedConsentSchema = z.strictObject({ connection: connectionSchema });

const remoteFileSchema = z
  .strictObject({
    file_id: z.string(),
    name: z.string(),
    path: z.string(),
    mime_type: z.string(),
    size_bytes: z.int().describe('0 for folders, and where the provider returns no size.'),
    is_folder: z.boolean(),
  })
  .meta({ id: 'RemoteFile' });

export const remoteFileListSchema = z.strictObject({
  path: z.string(),
  files: z.array(remoteFileSchema),
  next_page: z.string().nullable().describe('Null on the last page.'),
});

export function toConnectorProviderDto(provider: OAuthConnectorProvider) {
  return { provider, label: connectorProviderLabels[provider] };
}

export function toConnectionDto(connection: ConnectionView): z.input<typeof connectionSchema> {
  return {
    id: connection.id,
    provider: connection.provider,
    display_name: connection.displayName,
    status: connection.status,
    last_error: connection.lastError,
    credentials_masked: connection.credentialsMasked,
    config: connection.config,
    user_id: connection.userId,
    created_at: connection.createdAt.toISOString(),
    updated_at: connection.updatedAt.toISOString(),
  };
}

export function toRemoteFileDto({ fileId, name, path, mimeType, sizeBytes, isFolder }: RemoteFile) {
  return { file_id: fileId, name, path, mime_type: mimeType, size_bytes: sizeBytes ?? 0, is_folder: isFolder };
}
