import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { type ConnectorStack, startConnectorStack } from './connector-stack.ts';
import { type IdentityProvider, startIdentityProvider } from './identity-provider.ts';
import { type ScriptedModel, startScriptedModel } from './scripted-model.ts';
import type { Secret } from './secret-search.ts';
import { createTestDatabase, withTestAdmin } from './services.ts';

/** A service whose every secret is known, and is found nowhere else on the machine. */
export type SecretsCase = {
  api: ConnectorStack;
  model: ScriptedModel;
  people: IdentityProvider;
  /** The secrets that were planted so far. */
  secrets: Secret[];
  /** A new one, which is a sound password as well. */
  plant(name: string): string;
  close(): Promise<void>;
};

export async function startSecretsCase(): Promise<SecretsCase> {
  const secrets: Secret[] = [];
  const keep = (name: string, value: string) => {
    secrets.push({ name, value });
    return value;
  };
  const plant = (name: string) => keep(name, `cA1!${randomBytes(24).toString('base64')}`);
  const plantKey = (name: string) => keep(name, `cA1-${randomBytes(24).toString('base64url')}`);

  const [model, people, database] = await Promise.all([
    startScriptedModel(),
    startIdentityProvider({ redirectOrigins: ['https://app.example'] }),
    createTestDatabase(),
  ]);
  const role = `secrets_${randomBytes(6).toString('hex')}`;
  const url = new URL(database.url);
  url.username = role;
  url.password = plantKey('password of Postgres');
  await withTestAdmin((admin) => admin.query(`create role ${role} login superuser password '${url.password}'`));

  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  for (const line of pem.split('\n').slice(1, -2)) keep('signing key', line);
  const api = await startConnectorStack({
    DATABASE_URL: url.href,
    OPENAI_BASE_URL: model.baseUrl,
    OPENAI_API_KEY: plantKey('key of the models'),
    RERANK_BASE_URL: model.baseUrl,
    RERANK_API_KEY: plantKey('key of the reranker'),
    // Alignment asks the same server, with the same key.
    ALIGNMENT_EMBEDDING_BASE_URL: '',
    JWT_PRIVATE_KEY: pem,
    URL_SIGNING_KEY: plantKey('key of addresses of files'),
    ENCRYPTION_KEYS: `1:${keep('encryption key', randomBytes(32).toString('base64'))}`,
    ...people.settings,
    SSO_REDIRECT_URI: 'https://app.example/signed-in',
    SSO_REDIRECT_ORIGINS: 'https://app.example',
  });
  keep('client secret at the identity provider', people.client.secret);
  return {
    ...{ api, model, people, secrets, plant },
    close: async () => {
      await api.close();
      await Promise.all([model.close(), people.close()]);
      await database.drop();
      await withTestAdmin((admin) => admin.query(`drop role ${role}`));
    },
  };
}
