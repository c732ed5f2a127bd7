import { expect } from 'chai';
import { applicationEnvironment } from '../../../scripts/application-environment.ts';
import { readStartSettings } from '../../../scripts/settings.ts';

function environmentFor(user: Record<string, string>) {
  const settings = readStartSettings({ TOOLS_DIR: '/tools', ...user });
  const secrets = { postgresPassword: 'p/w', settings: { URL_SIGNING_KEY: 'made' } };
  return applicationEnvironment({ user, settings, secrets });
}

describe('environment of API and worker', () => {
  it('holds plain addresses of the embedded services', () => {
    const env = environmentFor({});
    expect(env).to.include({
      DATABASE_URL: 'postgres://postgres:p%2Fw@127.0.0.1:54320/agent_conversation_service',
      TEMPORAL_ADDRESS: '127.0.0.1:7233',
      TEMPORAL_UI_URL: 'http://127.0.0.1:8233',
      OPENAI_BASE_URL: 'http://127.0.0.1:3010/v1',
      ALIGNMENT_EMBEDDING_BASE_URL: 'http://127.0.0.1:3010/v1',
      URL_SIGNING_KEY: 'made',
    });
  });

  it('holds the addresses that the user gave in their place', () => {
    const env = environmentFor({
      DATABASE_URL: 'postgres://db/x',
      TEMPORAL_ADDRESS: 'temporal:7233',
      OPENAI_BASE_URL: 'https://models.example.com/v1',
      OPENAI_API_KEY: 'key',
    });
    expect(env).to.include({
      DATABASE_URL: 'postgres://db/x',
      TEMPORAL_ADDRESS: 'temporal:7233',
      OPENAI_BASE_URL: 'https://models.example.com/v1',
      OPENAI_API_KEY: 'key',
      ALIGNMENT_EMBEDDING_BASE_URL: 'http://127.0.0.1:3010/v1',
    });
    expect(env).not.to.have.property('TEMPORAL_UI_URL');
  });

  it('names the Qdrant that was started, or that the user gave', () => {
    expect(environmentFor({})).not.to.have.property('QDRANT_URL');
    const embedded = { VECTOR_STORE: 'qdrant', QDRANT_URL: 'http://127.0.0.1:63330' };
    expect(environmentFor({ VECTOR_STORE: 'qdrant' }))
      .to.include(embedded)
      .and.not.to.have.property('QDRANT_PORT');
    const own = { QDRANT_URL: 'http://qdrant:6333', QDRANT_API_KEY: 'key' };
    expect(environmentFor(own)).to.include(own);
  });

  it('passes on what the user set, and nothing that tells how the service was started', () => {
    const env = environmentFor({ LOG_LEVEL: 'debug', POSTGRES_PORT: '5555', npm_lifecycle_event: 'start' });
    expect(env).to.include({ LOG_LEVEL: 'debug' });
    expect(env).not.to.have.any.keys('POSTGRES_PORT', 'npm_lifecycle_event');
  });

  it('keeps the key of a provider from the local models', () => {
    expect(environmentFor({ OPENAI_API_KEY: 'key' })).not.to.have.property('OPENAI_API_KEY');
  });
});
