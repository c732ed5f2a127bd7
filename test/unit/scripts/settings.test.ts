import { expect } from 'chai';
import { applicationEnvironment } from '../../../scripts/application-environment.ts';
import { readStartSettings } from '../../../scripts/settings.ts';

const read = (env: Record<string, string> = {}, args: string[] = []) =>
  readStartSettings({ TOOLS_DIR: '/tools', ...env }, args);
const local = { port: 3010 };
const external = { DATABASE_URL: 'postgres://db/x', TEMPORAL_ADDRESS: 'temporal:7233' };
const provider = { OPENAI_BASE_URL: 'https://models.example.com/v1', OPENAI_API_KEY: 'key' };

describe('the settings of npm start', () => {
  it('embed every service that no setting replaces', () => {
    const nothing = { provider: null, identityProvider: null, qdrant: null };
    const postgres = { kind: 'embedded', port: 54_320 };
    const temporal = { kind: 'embedded', port: 7233, uiPort: 8233, codecPort: null };
    for (const env of [{}, { PORT: '', DATABASE_URL: '' }]) {
      expect(read(env)).deep.include({ postgres, temporal, modelServer: local, ...nothing });
    }
    expect(read(external)).deep.include({
      postgres: { kind: 'external', url: external.DATABASE_URL },
      temporal: { kind: 'external', address: external.TEMPORAL_ADDRESS, uiUrl: null },
    });
  });

  it('add an identity provider for --with-sso, and reject other arguments', () => {
    const withSso = (port: string) => read({ IDENTITY_PROVIDER_PORT: port }, ['--with-sso']).identityProvider;
    expect([withSso(''), withSso('4000')]).deep.equal([{ port: 3020 }, { port: 4000 }]);
    expect(() => read({}, ['--with-oss'])).throw(/^Unknown argument: --with-oss\. The only one is --with-sso/);
  });

  it('start Qdrant if Qdrant is chosen and no setting contains its URL', () => {
    const QDRANT_URL = 'http://qdrant:6333';
    const own = { kind: 'external', url: QDRANT_URL };
    for (const [env, qdrant] of [
      [{ VECTOR_STORE: 'qdrant' }, { kind: 'embedded', port: 63_330, apiKey: null }],
      [{ QDRANT_URL }, own],
      [{ QDRANT_URL, VECTOR_STORE: 'qdrant' }, own],
      [{ QDRANT_URL, VECTOR_STORE: 'pgvector' }, null],
    ] as const) {
      expect(read({ ...env })).deep.include({ qdrant });
    }
  });

  it('use another model provider if its URL is set, not for a mere API key, and still score alignment locally', () => {
    expect(read({ OPENAI_API_KEY: 'key' }).provider).equal(null);
    expect(read(provider).modelServer).deep.equal(local);
    expect(read({ ...provider, ALIGNMENT_EMBEDDING_BASE_URL: provider.OPENAI_BASE_URL }).modelServer).equal(null);
  });

  it('report an invalid port', () => {
    for (const PORT of ['http', '0', '70000', '3000.5']) {
      expect(() => read({ PORT })).throw(/^wrong setting PORT: [^\n]+$/);
    }
  });
});

describe('the environment variables of API and worker', () => {
  const environmentFor = (user: Record<string, string> = {}) => {
    const secrets = { postgresPassword: 'p/w', settings: { URL_SIGNING_KEY: 'made' } };
    return applicationEnvironment({ user, settings: read(user), secrets });
  };

  it('contain the addresses of the embedded services, or the addresses that the user set', () => {
    const embedded = environmentFor();
    expect(embedded).not.property('QDRANT_URL');
    expect(embedded).include({
      DATABASE_URL: 'postgres://postgres:p%2Fw@127.0.0.1:54320/agent_conversation_service',
      TEMPORAL_ADDRESS: '127.0.0.1:7233',
      TEMPORAL_UI_URL: 'http://127.0.0.1:8233',
      OPENAI_BASE_URL: 'http://127.0.0.1:3010/v1',
      ALIGNMENT_EMBEDDING_BASE_URL: 'http://127.0.0.1:3010/v1',
      URL_SIGNING_KEY: 'made',
    });
    expect(environmentFor({ ...external, ...provider }))
      .include({ ...external, ...provider, ALIGNMENT_EMBEDDING_BASE_URL: 'http://127.0.0.1:3010/v1' })
      .not.property('TEMPORAL_UI_URL');
    expect(environmentFor({ VECTOR_STORE: 'qdrant' }))
      .include({ VECTOR_STORE: 'qdrant', QDRANT_URL: 'http://127.0.0.1:63330' })
      .not.property('QDRANT_PORT');
    const own = { QDRANT_URL: 'http://qdrant:6333', QDRANT_API_KEY: 'key' };
    expect(environmentFor(own)).include(own);
  });

  it("contain the user's settings, but no options of npm start and no API key for local models", () => {
    const env = environmentFor({ LOG_LEVEL: 'debug', POSTGRES_PORT: '5555', npm_lifecycle_event: 'start' });
    expect(env).include({ LOG_LEVEL: 'debug' }).and.not.any.keys('POSTGRES_PORT', 'npm_lifecycle_event');
    expect(environmentFor({ OPENAI_API_KEY: 'key' })).not.property('OPENAI_API_KEY');
  });
});
