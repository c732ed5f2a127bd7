import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { expect } from 'chai';
import { settingNames } from '#src/config.ts';
import { metricCatalog } from '#src/contracts/metrics.ts';
import { errorsPage } from '../../scripts/errors-page.ts';
import { startSettingNames } from '../../scripts/settings.ts';

const page = (name: string): Promise<string> => readFile(new URL(`../../docs/${name}`, import.meta.url), 'utf8');

describe('the docs', () => {
  it('list every error code (`npm run docs` generates the page)', async () => {
    expect(await page('errors.md')).to.equal(errorsPage());
  });

  it('name every setting', async () => {
    const text = await page('settings.md');
    const missing = [...new Set([...settingNames, ...startSettingNames])].filter(
      (name) => !text.includes(`\`${name}\``),
    );
    expect(missing).to.deep.equal([]);
  });

  it('name only existing source and test files as proof of security promises', async () => {
    const paths = [...(await page('security.md')).matchAll(/`((?:src|test)\/[\w./-]+)`/g)].map(([, path = '']) => path);
    expect(paths).include('src/domain/access/policy.ts');
    const missing = paths.filter((path) => !existsSync(new URL(`../../${path}`, import.meta.url)));
    expect(missing).to.deep.equal([]);
  });

  it('name every metric with its type and its labels', async () => {
    const lines = (await page('telemetry.md')).split('\n');
    const missing = Object.entries(metricCatalog).filter(([name, { type, labels }]) => {
      const words = labels.map((label) => `\`${label}\``).join(', ') || 'none';
      return !lines.some((line) => line.startsWith(`| \`${name}\` | ${type} | ${words} |`));
    });
    expect(missing).to.deep.equal([]);
  });
});
