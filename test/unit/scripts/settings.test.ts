import { expect } from 'chai';
import { readStartSettings } from '../../../scripts/settings.ts';

const TOOLS_DIR = '/tools';

describe('settings of the embedded mode', () => {
  it('embeds everything when nothing is set', () => {
    const settings = readStartSettings({ TOOLS_DIR });
    expect(settings.postgres).to.deep.equal({ kind: 'embedded', port: 54_320 });
    expect(settings.temporal).to.deep.equal({ kind: 'embedded', port: 7233, uiPort: 8233, codecPort: null });
    expect(settings.modelServer).to.deep.equal({ port: 3010 });
    expect(settings.provider).to.equal(null);
    expect(settings.identityProvider).to.equal(null);
  });

  it('adds an identity provider where the command asks for one, and knows no other argument', () => {
    const withSso = (IDENTITY_PROVIDER_PORT: string) =>
      readStartSettings({ TOOLS_DIR, IDENTITY_PROVIDER_PORT }, ['--with-sso']).identityProvider;
    expect(withSso('')).to.deep.equal({ port: 3020 });
    expect(withSso('4000')).to.deep.equal({ port: 4000 });
    expect(() => readStartSettings({ TOOLS_DIR }, ['--with-oss'])).to.throw(
      /^Unknown argument: --with-oss\. The only one is --with-sso/,
    );
  });

  it('leaves out what a setting replaces', () => {
    const settings = readStartSettings({
      TOOLS_DIR,
      DATABASE_URL: 'postgres://db/x',
      TEMPORAL_ADDRESS: 'temporal:7233',
    });
    expect(settings.postgres).to.deep.equal({ kind: 'external', url: 'postgres://db/x' });
    expect(settings.temporal).to.deep.equal({ kind: 'external', address: 'temporal:7233', uiUrl: null });
  });

  it('starts Qdrant where it is chosen and nobody says where one is', () => {
    const qdrantOf = (env: Record<string, string>) => readStartSettings({ TOOLS_DIR, ...env }).qdrant;
    const QDRANT_URL = 'http://qdrant:6333';
    expect(qdrantOf({})).to.equal(null);
    expect(qdrantOf({ VECTOR_STORE: 'qdrant' })).to.deep.equal({ kind: 'embedded', port: 63_330, apiKey: null });
    expect(qdrantOf({ QDRANT_URL })).to.deep.equal({ kind: 'external', url: QDRANT_URL });
    expect(qdrantOf({ QDRANT_URL, VECTOR_STORE: 'qdrant' })).to.deep.equal({ kind: 'external', url: QDRANT_URL });
    expect(qdrantOf({ QDRANT_URL, VECTOR_STORE: 'pgvector' })).to.equal(null);
  });

  it('keeps the local models for alignment when another provider serves the rest', () => {
    const provider = { TOOLS_DIR, OPENAI_BASE_URL: 'https://models.example.com/v1', OPENAI_API_KEY: 'key' };
    expect(readStartSettings(provider).modelServer).to.deep.equal({ port: 3010 });
    const both = { ...provider, ALIGNMENT_EMBEDDING_BASE_URL: 'https://models.example.com/v1' };
    expect(readStartSettings(both).modelServer).to.equal(null);
  });

  it('sends nothing to a provider because of a key alone', () => {
    expect(readStartSettings({ TOOLS_DIR, OPENAI_API_KEY: 'key' }).provider).to.equal(null);
  });

  it('takes an empty setting for an absent one', () => {
    expect(readStartSettings({ TOOLS_DIR, PORT: '', DATABASE_URL: '' }).postgres.kind).to.equal('embedded');
  });

  for (const PORT of ['http', '0', '70000', '3000.5']) {
    it(`names PORT when it is ${PORT}`, () => {
      expect(() => readStartSettings({ TOOLS_DIR, PORT })).to.throw(/^wrong setting PORT: [^\n]+$/);
    });
  }
});
