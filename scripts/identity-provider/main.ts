import { once } from 'node:events';
import { createServer } from 'node:http';
import { z } from 'zod';
import { createIdentityProvider } from './identity-provider.ts';
import { openProviderFolder } from './provider-folder.ts';

const environment = z.object({
  PORT: z.coerce.number(),
  DATA_DIR: z.string(),
  CLIENT_ID: z.string(),
  REDIRECT_ORIGINS: z.string().transform((origins) => origins.split(',')),
  API_URL: z.string(),
});

const { PORT: port, DATA_DIR: folder, ...settings } = environment.parse(process.env);
const { clientSecret, cookieKey, signingKey, accounts } = await openProviderFolder(folder);
const issuer = `http://127.0.0.1:${port}`;
const provider = createIdentityProvider({
  issuer,
  client: { id: settings.CLIENT_ID, secret: clientSecret },
  redirectOrigins: settings.REDIRECT_ORIGINS,
  signingKey,
  cookieKey,
  accounts,
  apiUrl: settings.API_URL,
});
// Listens on the loopback address only, because the passwords of the accounts are not secret.
const server = createServer(provider.callback()).listen(port, '127.0.0.1');
await once(server, 'listening');
console.log(`listening at ${issuer}`);

process.once('SIGTERM', () => process.exit(0));
