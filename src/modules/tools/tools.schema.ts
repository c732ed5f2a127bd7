import { z } from 'zod';
import { toolProviders } from '#src/domain/agents/tools.ts';
import { uuidField } from '#src/http/request/fields.ts';
import type { ToolProviderView, ToolView } from './tool-catalog.service.ts';

const providerIds = toolProviders.map(({ id }) => id);

export const toolProviderParams = z.strictObject({
  provider: z.enum(providerIds, { error: 'provider_not_found' }).meta({ id: 'ToolProvider' }),
});

const repeated = (field: z.ZodType<string>) =>
  z.preprocess((raw) => (raw === undefined ? undefined : [raw].flat()), z.array(field).min(1).max(20).optional());

export const authorizeToolQuery = z.strictObject({
  return_to: z
    .string()
    .max(2_000)
    .optional()
    .describe('Where the browser goes afterwards: a path of the frontend, or an address of an allowed origin.'),
  scopes: repeated(z.string().max(300)).describe('May be repeated; all that the provider has for tools when omitted.'),
});

export const connectToolBody = z.strictObject({
  api_key: z
    .string()
    .trim()
    .regex(/^[\x21-\x7e]{1,512}$/, 'must be one word of visible ASCII characters')
    .meta({ description: 'It is tried once before it is stored, encrypted.', writeOnly: true }),
});

export const authorizeToolSchema = z.strictObject({ authorize_url: z.url() });

const actionSchema = z
  .strictObject({
    id: z.string(),
    label: z.string(),
    description: z.string(),
    crudl: z.enum(['create', 'read', 'update', 'delete', 'list']),
    granted: z.boolean().describe('Nothing more has to be connected or consented to.'),
  })
  .meta({ id: 'ToolAction' });

const credentialFieldSchema = z.strictObject({
  id: z.string(),
  label: z.string(),
  description: z.string(),
  secret: z.boolean(),
});

const toolSchema = z
  .strictObject({
    id: z.string().describe('What `enabled_tools` of agents and drafts names.'),
    name: z.string(),
    group: z.string(),
    description: z.string(),
    requires_credentials: z.boolean(),
    credential_fields: z.array(credentialFieldSchema),
    available: z.boolean().describe('This deployment can run it.'),
    auth_kind: z.enum(['none', 'api_key', 'oauth']),
    connected: z.boolean().describe('Your organization has a working connection, or none is needed.'),
    actions: z.array(actionSchema),
  })
  .meta({ id: 'Tool' });

export const toolListSchema = z.strictObject({ items: z.array(toolSchema) });

const scopeOptionSchema = z.strictObject({
  id: z.string().describe('What `scopes` of authorize takes.'),
  label: z.string(),
  description: z.string(),
  granted: z.boolean(),
});

const providerConnectionSchema = z
  .strictObject({
    id: uuidField.nullable().describe('Of the connection; null without one.'),
    provider: z.string(),
    name: z.string(),
    connected: z.boolean().describe('There is a connection, and the provider accepts it.'),
    status: z.enum(['not_connected', 'active', 'needs_reauth']),
    configured: z.boolean().describe('The deployment has what a connection takes.'),
    auth_mode: z.enum(['api_key', 'oauth']),
    category: z.enum(['integration']),
    credential_fields: z.array(credentialFieldSchema),
    scope_options: z.array(scopeOptionSchema),
    tools: z.array(z.string()),
    auth_actions: z.array(z.enum(['connect', 'reconnect', 'disconnect'])).describe('What you may do now.'),
    actions: z.array(actionSchema),
  })
  .meta({ id: 'ToolProviderConnection' });

export const providerConnectionListSchema = z.strictObject({
  items: z.array(providerConnectionSchema),
  is_org_admin: z.boolean(),
});

export const connectedToolProviderSchema = z.strictObject({ connection: providerConnectionSchema });

type ToolDto = z.infer<typeof toolSchema>;
type ProviderConnectionDto = z.infer<typeof providerConnectionSchema>;

const toActionDto = ({ id, label, description, crudl, isGranted }: ToolView['actions'][number]) => {
  return { id, label, description, crudl, granted: isGranted };
};

export function toToolDto({ tool, provider, isAvailable, isConnected, actions }: ToolView): ToolDto {
  return {
    id: tool.id,
    name: tool.name,
    group: tool.group,
    description: tool.description,
    requires_credentials: provider !== null,
    credential_fields: provider?.auth.kind === 'api_key' ? [...provider.auth.fields] : [],
    available: isAvailable,
    auth_kind: provider?.auth.kind ?? 'none',
    connected: isConnected,
    actions: actions.map(toActionDto),
  };
}

export function toProviderConnectionDto(mayAdminister: boolean, view: ToolProviderView): ProviderConnectionDto {
  const { provider, isConfigured, connection, tools, actions } = view;
  const { auth } = provider;
  const scopes = connection?.status === 'active' ? connection.scopes : [];
  return {
    id: connection?.id ?? null,
    provider: provider.id,
    name: provider.name,
    connected: connection?.status === 'active',
    status: connection?.status ?? 'not_connected',
    configured: isConfigured,
    auth_mode: auth.kind,
    category: provider.category,
    credential_fields: auth.kind === 'api_key' ? [...auth.fields] : [],
    scope_options:
      auth.kind === 'oauth' ? auth.scopes.map((scope) => ({ ...scope, granted: scopes.includes(scope.id) })) : [],
    tools: tools.map(({ id }) => id),
    auth_actions: mayAdminister ? authActions(view) : [],
    actions: actions.map(toActionDto),
  };
}

function authActions({ isConfigured, connection }: ToolProviderView): ProviderConnectionDto['auth_actions'] {
  if (connection === null) return isConfigured ? ['connect'] : [];
  return isConfigured ? ['reconnect', 'disconnect'] : ['disconnect'];
}
