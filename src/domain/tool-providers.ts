import { calendarReadScope, calendarWriteScope } from './tools/provider-tools.ts';

/** What an administrator types in to connect a provider. */
export type CredentialField = { id: string; label: string; description: string; secret: boolean };

/** A right that an administrator may ask the provider for. */
export type ScopeOption = { id: string; label: string; description: string };

/** Somebody outside whose service tools use, by a connection of the organization. */
export type ToolProvider = {
  id: string;
  name: string;
  category: 'integration';
  auth: { kind: 'api_key'; fields: readonly CredentialField[] } | { kind: 'oauth'; scopes: readonly ScopeOption[] };
};

export const toolProviders: readonly ToolProvider[] = [
  {
    id: 'brave_search',
    name: 'Brave Search',
    category: 'integration',
    auth: {
      kind: 'api_key',
      fields: [
        {
          id: 'api_key',
          label: 'API key',
          description: 'The subscription token from the dashboard of the Brave Search API.',
          secret: true,
        },
      ],
    },
  },
  {
    id: 'google_calendar',
    name: 'Google Calendar',
    category: 'integration',
    auth: {
      kind: 'oauth',
      scopes: [
        { id: calendarReadScope, label: 'See events', description: 'Read the calendars of the account.' },
        { id: calendarWriteScope, label: 'Change events', description: 'Create and change events of the account.' },
      ],
    },
  },
];
