import type { Knex } from 'knex';
import { allTools, type Tool, type ToolAction, type ToolProvider, toolProviders } from '#src/domain/agents/tools.ts';
import { appError } from '#src/errors.ts';
import type { OAuthProvider } from '#src/ports/identity.ts';
import { createToolConnectionsRepository, type ToolConnection } from './tool-connections.model.ts';

type ProviderAccess =
  /**
   * A provider that is connected by an API key. `check` verifies the key: throws `connection_check_failed` for a
   * rejected key, and `provider_unavailable`.
   */
  | { kind: 'api_key'; check(apiKey: string): Promise<void> }
  /**
   * A provider that is connected by OAuth. `settings` is null if the deployment has no OAuth client for the provider.
   */
  | { kind: 'oauth'; settings: OAuthProvider | null };

export type ToolProviderAccess = Readonly<Record<string, ProviderAccess>>;

type GrantedAction = ToolAction & { isGranted: boolean };

export type ToolView = {
  tool: Tool;
  provider: ToolProvider | null;
  isAvailable: boolean;
  isConnected: boolean;
  actions: GrantedAction[];
};

export type ToolProviderView = {
  provider: ToolProvider;
  isConfigured: boolean;
  connection: ToolConnection | null;
  tools: Tool[];
  actions: GrantedAction[];
};

export type ToolCatalogService = ReturnType<typeof createToolCatalogService>;

export function createToolCatalogService(deps: {
  db: Knex;
  access: ToolProviderAccess;
  switchedOff: readonly string[];
}) {
  const { access, switchedOff } = deps;
  const connections = createToolConnectionsRepository(deps.db);

  async function connectionsByProvider(orgId: string): Promise<Map<string, ToolConnection>> {
    return new Map((await connections.list(orgId)).map((connection) => [connection.provider, connection]));
  }

  function isAvailable({ id, provider }: Tool): boolean {
    return provider === null ? !switchedOff.includes(id) : isConfigured(access[provider]);
  }

  async function list(orgId: string): Promise<ToolView[]> {
    const byProvider = await connectionsByProvider(orgId);
    return allTools.map((tool) => {
      const connection = tool.provider === null ? null : (byProvider.get(tool.provider) ?? null);
      return {
        tool,
        provider: toolProviders.find(({ id }) => id === tool.provider) ?? null,
        isAvailable: isAvailable(tool),
        isConnected: tool.provider === null || connection?.status === 'active',
        actions: withGrants([tool], connection),
      };
    });
  }

  function providerView(provider: ToolProvider, connection: ToolConnection | null): ToolProviderView {
    const toolsOfProvider = allTools.filter((tool) => tool.provider === provider.id);
    return {
      provider,
      isConfigured: isConfigured(access[provider.id]),
      connection,
      tools: toolsOfProvider,
      actions: withGrants(toolsOfProvider, connection),
    };
  }

  return {
    list,

    async listProviders(orgId: string): Promise<ToolProviderView[]> {
      const byProvider = await connectionsByProvider(orgId);
      return toolProviders.map((provider) => providerView(provider, byProvider.get(provider.id) ?? null));
    },

    async getProvider(orgId: string, providerId: string): Promise<ToolProviderView> {
      return providerView(requireToolProvider(providerId), (await connections.find(orgId, providerId)) ?? null);
    },

    async usableToolIds(orgId: string): Promise<Set<string>> {
      const usable = (await list(orgId)).filter(
        (view) => view.isAvailable && view.isConnected && view.actions.every(({ isGranted }) => isGranted),
      );
      return new Set(usable.map(({ tool }) => tool.id));
    },
  };
}

export function requireToolProvider(id: string): ToolProvider {
  const provider = toolProviders.find((known) => known.id === id);
  if (provider === undefined) throw appError('provider_not_found');
  return provider;
}

function isConfigured(access: ProviderAccess | undefined): boolean {
  return access !== undefined && (access.kind === 'api_key' || access.settings !== null);
}

function withGrants(granted: readonly Tool[], connection: ToolConnection | null): GrantedAction[] {
  const isActive = connection?.status === 'active';
  return granted.flatMap(({ provider, actions }) =>
    actions.map((action) => ({
      ...action,
      isGranted: provider === null || (isActive && action.scopes.every((scope) => connection.scopes.includes(scope))),
    })),
  );
}
