import { oauthConnectorProviders } from '#src/domain/documents/connector-providers.ts';
import { itServes } from './provider.cases.ts';

// The everyday run tests Google Drive.
for (const provider of oauthConnectorProviders) if (provider !== 'acme_drive') itServes(provider);
