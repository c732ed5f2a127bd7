import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generate } from 'selfsigned';

const usual = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;

type Certificate = { certPem: string; keyPem: string };

/** Issues certificates that nobody trusts but who is told to, for a server or a client that is called so. */
export type Authority = { certPem: string; issue(name: string): Promise<Certificate> };

export async function createAuthority(name: string): Promise<Authority> {
  const root = await generate(called(name), {
    ...usual,
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  return {
    certPem: root.cert,
    async issue(subject) {
      const { cert, private: key } = await generate(called(subject), {
        ...usual,
        ca: { cert: root.cert, key: root.private },
        extensions: [
          { name: 'basicConstraints', cA: false },
          { name: 'subjectAltName', altNames: [{ type: 2, value: subject }] },
        ],
      });
      return { certPem: cert, keyPem: key };
    },
  };
}

/** Files with these texts, in a folder of their own. */
export async function writePems(pems: Record<string, string>): Promise<{ folder: string; path(name: string): string }> {
  const folder = await mkdtemp(join(tmpdir(), 'pems-'));
  await Promise.all(Object.entries(pems).map(([name, pem]) => writeFile(join(folder, name), pem, { mode: 0o600 })));
  return { folder, path: (name) => join(folder, name) };
}

function called(name: string) {
  return [{ name: 'commonName', value: name }];
}
